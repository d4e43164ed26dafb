package ablation

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/terminal"
)

// result makes one of some seeds, steps and methods.
func result(methods []Method, seeds, steps int) *Result {
	r := &Result{Env: "keytodoor", Curves: map[string][][]float64{}}
	columns := []*map[string][]float64{&r.WarmStart, &r.Success, &r.WallSeconds, &r.Segments, &r.PolicyTokens, &r.PolicyCalls, &r.SummaryCalls, &r.LogProbDrift, &r.SameBoundaries}
	for _, column := range columns {
		*column = map[string][]float64{}
	}
	r.RowTokens = map[string][]int64{}
	for seed := range seeds {
		r.Seeds = append(r.Seeds, uint64(seed))
		for k, m := range methods {
			for _, column := range columns {
				(*column)[m.Name] = append((*column)[m.Name], float64(k+seed)/float64(len(methods)+seeds))
			}
			r.WallSeconds[m.Name][seed], r.PolicyTokens[m.Name][seed] = 54321, 1234567
			r.RowTokens[m.Name] = append(r.RowTokens[m.Name], 123_456_789)
			curve := make([]float64, steps)
			for i := range curve {
				curve[i] = float64(i+1) / float64(steps+k)
			}
			r.Curves[m.Name] = append(r.Curves[m.Name], curve)
		}
	}
	return r
}

// The tables fit, however many seeds there are, and name the lowest and highest success
// where there are too many to list.
func TestTablesFit(t *testing.T) {
	t.Parallel()
	for _, over := range []string{OverCredit, OverCondense} {
		methods, err := Methods(over)
		if err != nil {
			t.Fatal(err)
		}
		for _, seeds := range []int{1, 3, 4, 100} {
			var out bytes.Buffer
			if err := result(methods, seeds, 2).Table(&out, methods, over); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(out.String()) {
				if n := len([]rune(line)) - 1; n > terminal.Columns {
					t.Errorf("over %s, %d seeds: %d columns: %s", over, seeds, n, line)
				}
			}
			if strings.Contains(out.String(), "lowest highest") != (seeds > 3) || strings.Contains(out.String(), "same boundaries") != (over == OverCondense) {
				t.Errorf("over %s, %d seeds:\n%s", over, seeds, out.String())
			}
		}
	}
}

// element is one of an SVG document, with its attributes and its text.
type element struct {
	name       string
	attributes map[string]string
	text       string
}

func parse(t *testing.T, svg []byte) (all []element) {
	t.Helper()
	decoder := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := element{name: token.Name.Local, attributes: map[string]string{}}
			for _, a := range token.Attr {
				e.attributes[a.Name.Local] = a.Value
			}
			all = append(all, e)
		case xml.CharData:
			all[max(0, len(all)-1)].text += strings.TrimSpace(string(token))
		}
	}
}

// The chart has titles at its axes, a grid, and of every method a curve that differs from
// the others in its colour, its dashes and its markers, in the plot and in the legend.
func TestChart(t *testing.T) {
	t.Parallel()
	for _, over := range []string{OverCredit, OverCondense} {
		methods, err := Methods(over)
		if err != nil {
			t.Fatal(err)
		}
		for _, steps := range []int{0, 1, 2, 25, 1000} {
			r := result(methods, 2, steps)
			r.Env = "<my> & yours"
			var texts, colours, dashes []string
			grid := 0
			for _, e := range parse(t, r.chart(methods)) {
				switch e.name {
				case "text":
					texts = append(texts, e.text)
				case "polyline":
					colours, dashes = append(colours, e.attributes["stroke"]), append(dashes, e.attributes["stroke-dasharray"])
					if n := len(strings.Fields(e.attributes["points"])); n != steps {
						t.Errorf("%d steps: a curve of %d points", steps, n)
					}
					for _, point := range strings.Fields(e.attributes["points"]) {
						var x, y float64
						if _, err := fmt.Sscanf(point, "%g,%g", &x, &y); err != nil || x < plotLeft || x > plotRight || y < plotTop || y > plotBottom {
							t.Fatalf("%d steps: point %s is not in the plot", steps, point)
						}
					}
				case "line":
					if e.attributes["stroke"] == "#ddd" {
						grid++
					}
				}
			}
			for _, want := range []string{"policy-improvement step", "share of tasks solved", "<my> & yours: success of rollouts by step, mean of 2 seeds", "0.0", "1.0"} {
				if !slices.Contains(texts, want) {
					t.Errorf("%d steps: texts %q lack %q", steps, texts, want)
				}
			}
			for _, m := range methods {
				if !slices.Contains(texts, m.Name) {
					t.Errorf("%d steps: the legend %q lacks %s", steps, texts, m.Name)
				}
			}
			if n := len(methods); distinct(colours) != n || distinct(dashes) != n {
				t.Errorf("%d steps: colours %q, dashes %q: want %d different ones", steps, colours, dashes, n)
			}
			if grid < 6 || grid > 25 {
				t.Errorf("%d steps: %d lines of the grid", steps, grid)
			}
		}
	}
}

func distinct(list []string) int {
	list = slices.Clone(list)
	slices.Sort(list)
	return len(slices.Compact(list))
}

func TestTick(t *testing.T) {
	t.Parallel()
	for steps, want := range map[int]int{0: 1, 1: 1, 12: 1, 13: 2, 25: 5, 60: 5, 61: 10, 1000: 100, 999_999: 100_000} {
		if got := tick(steps); got != want {
			t.Errorf("%d steps: every %d, want every %d", steps, got, want)
		}
	}
}
