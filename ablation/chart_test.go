package ablation

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/terminal"
	"github.com/infinirl/infinirl/train"
)

// result makes one of some seeds, steps and methods.
func result(methods []Method, seeds, steps int) *Result {
	c := comparison{runner: epochs(2), plan: Plan{Env: "keytodoor", Methods: methods, Seeds: seeds, Metric: train.Success, Threshold: 0.9}}
	for seed := range seeds {
		for k := range methods {
			value := float64(k+seed) / float64(len(methods)+seeds)
			e := train.Evaluation{Success: value, ReturnMean: -123.456, SegmentsPerTrajectory: 12.34, PolicyTokensPerTrajectory: 1234567, PolicyCallsPerTrajectory: 123.4, SameBoundaries: value}
			o := &outcome{summary: &train.Summary{Sampled: e, WarmStart: e, WallSeconds: 54321}}
			for i := range steps {
				success := float64(i+1) / float64(steps+k)
				o.steps = append(o.steps, train.StepMetrics{Success: success, ReturnMean: 10*success - 3, Trajectories: 512, RowTokens: 123_456_789, Timing: train.Timing{TrainSeconds: 123}})
			}
			c.outcomes = append(c.outcomes, o)
		}
	}
	return c.result()
}

// epochs is a runner that only knows how often each step's trajectories are gone through.
type epochs int

func (e epochs) Epochs(Method) int                 { return int(e) }
func (epochs) Check(context.Context, Method) error { return nil }
func (epochs) Train(context.Context, Method, uint64, int, string, *train.Progress) (*train.Summary, error) {
	return nil, errors.New("it does not train")
}
func (epochs) Resume(context.Context, string, *train.Progress) (*train.Summary, error) {
	return nil, errors.New("it does not train")
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
			grid, bands := 0, 0
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
				case "polygon":
					bands++
				case "line":
					if e.attributes["stroke"] == "#ddd" {
						grid++
					}
				}
			}
			for _, want := range []string{"trajectories played", "return, mean of a step", "<my> & yours: return of rollouts by trajectories played, mean and range of 2 seeds", "0"} {
				if !slices.Contains(texts, want) {
					t.Errorf("%d steps: texts %q lack %q", steps, texts, want)
				}
			}
			for _, m := range methods {
				if !slices.Contains(texts, m.Name) {
					t.Errorf("%d steps: the legend %q lacks %s", steps, texts, m.Name)
				}
			}
			if n := len(methods); distinct(colours) != n || distinct(dashes) != n || bands != n {
				t.Errorf("%d steps: colours %q, dashes %q, %d bands: want %d different ones", steps, colours, dashes, bands, n)
			}
			if grid < 3 || grid > 25 {
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

func TestTicks(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{0: 1, 1: 1, 12: 1, 13: 2, 25: 5, 60: 5, 61: 10, 1000: 100, 999_999: 100_000} {
		if got := tick(n); got != want {
			t.Errorf("%d: every %d, want every %d", n, got, want)
		}
	}
	for length, want := range map[float64]float64{0: 1, 1: 0.2, 0.5: 0.1, 6: 1, 44: 10, 130: 50, 5000: 1000} {
		if got := step(length); math.Abs(got-want) > 1e-12 {
			t.Errorf("%v: every %v, want every %v", length, got, want)
		}
	}
}

// The threshold is reached at the first step whose mean with the two before is there; what
// was played and how long it took counts up to that step.
func TestTrajectoriesToThreshold(t *testing.T) {
	t.Parallel()
	r := result([]Method{{Name: "a"}}, 1, 10) // .1 .2 … 1: the last three are .9 in the mean
	if got := r.Trajectories["a"][0]; got == nil || *got != 5120 {
		t.Errorf("trajectories %v, want 5120", got)
	}
	if got := r.Seconds["a"][0]; got == nil || *got != 1230 {
		t.Errorf("seconds %v, want 1230", got)
	}
	if got := result([]Method{{Name: "a"}, {Name: "b"}}, 1, 10).Trajectories["b"][0]; got != nil {
		t.Errorf("trajectories %v, want none: the mean of the last three is below", *got)
	}
	if got := r.RowTokens["a"][0]; got != 2*10*123_456_789 {
		t.Errorf("row tokens %d", got)
	}
}
