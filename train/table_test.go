package train

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/infinirl/infinirl/ppo"
	"github.com/infinirl/infinirl/terminal"
	"github.com/infinirl/infinirl/trajectory"
)

// The table fits 80 columns, header and lines alike, and stands in columns.
func TestStepLineFits(t *testing.T) {
	t.Parallel()
	header := strings.Split(stepHeader.String(), "\n")
	if n := utf8.RuneCountInString(header[1]); n != terminal.Columns {
		t.Errorf("the header has %d columns, want %d", n, terminal.Columns)
	}
	for _, m := range []StepMetrics{
		{Step: 1, Success: 0.1, ReturnMean: 0.1, SegmentsPerTrajectory: 6, Timing: Timing{RolloutTokensPerSecond: 962746, TrainTokensPerSecond: 302066}},
		{Step: 9999, Success: 1, ReturnMean: -12345678, SegmentsPerTrajectory: 12345678.9, Update: ppo.Metrics{ApproxKL: -0.0017, ClipFraction: 1}, Credit: CreditMetrics{ExplainedVariance: -123456.789},
			Timing: Timing{RolloutTokensPerSecond: 1e13, TrainTokensPerSecond: 0.3}},
	} {
		line := stepLine(m, 99*time.Hour+59*time.Minute).String()
		if n := utf8.RuneCountInString(line); n != terminal.Columns {
			t.Errorf("%d columns, want %d: %q", n, terminal.Columns, line)
		}
	}
}

// What did not end by itself is told in words, if there is any.
func TestStepLineTellsWhatIsLost(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		m    StepMetrics
		want string // of the second line
	}{
		{StepMetrics{Trajectories: 64}, ""},
		{StepMetrics{Trajectories: 64, Failed: 3}, "3 failed of 64 trajectories"},
		{StepMetrics{Trajectories: 64, Failed: 3, Truncated: 12, Overflowed: 5, Stale: 2}, "3 failed, 5 overflowed, 7 truncated, 2 stale of 64 trajectories"},
		{StepMetrics{Trajectories: 64, Truncated: 5, Overflowed: 5}, "5 overflowed of 64 trajectories"},
	} {
		_, second, _ := strings.Cut(stepLine(test.m, 0).String(), "\n")
		if strings.TrimSpace(second) != test.want {
			t.Errorf("%+v: %q, want %q", test.m, second, test.want)
		}
	}
}

func TestSummariseCountsEveryEnd(t *testing.T) {
	t.Parallel()
	var played []*trajectory.Trajectory
	for _, status := range []trajectory.Status{trajectory.Finished, trajectory.Truncated, trajectory.ContextOverflow, trajectory.ContextOverflow, trajectory.Failed, trajectory.Aborted} {
		played = append(played, &trajectory.Trajectory{Status: status})
	}
	m := summarise(played)
	if m.Trajectories != 6 || m.Failed != 2 || m.Truncated != 3 || m.Overflowed != 2 {
		t.Errorf("%d trajectories, %d failed, %d truncated, %d overflowed: want 6, 2, 3, 2", m.Trajectories, m.Failed, m.Truncated, m.Overflowed)
	}
	text, err := json.Marshal(m)
	if err != nil || !strings.Contains(string(text), `"overflowed":2`) {
		t.Errorf("%s, %v", text, err)
	}
}

func TestRatesAndClocks(t *testing.T) {
	t.Parallel()
	for x, want := range map[float64]string{0: "0", 0.3: "0", 999: "999", 999.6: "1.00k", 1234: "1.23k", 9996: "10k", 54321: "54k", 962746: "963k", 1.5e6: "1.50M", 2e13: "20T"} {
		if got := short(x); got != want || len(got) > 5 {
			t.Errorf("%v tokens a second: %q, want %q", x, got, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "0s", 45 * time.Second: "45s", 67 * time.Second: "1m07s", 3600 * time.Second: "1h00m",
		99*time.Hour + 59*time.Minute: "99h59m", 300 * time.Hour: "12d12h"} {
		if got := clock(d); got != want || len(got) > 6 {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

// The status line has room in every width, and says how far it is as long as it can.
func TestStatusLineFits(t *testing.T) {
	t.Parallel()
	for width := 1; width < 200; width++ {
		for _, what := range []string{"cloning", "step 12345: rollout of a world with a long name"} {
			for _, done := range []int{0, 7, 4000, 5000} {
				line := statusLine(what, done, 4000, width)
				if n := utf8.RuneCountInString(line); n > width-1 && width > 12 {
					t.Fatalf("width %d: %d columns: %q", width, n, line)
				}
				if !strings.HasSuffix(line, "/4000") {
					t.Fatalf("width %d: %q does not say how far it is", width, line)
				}
			}
		}
	}
	if got, want := statusLine("cloning", 2, 4, 80), "cloning                [============            ] 2/4"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := statusLine("evaluating the base", 2, 4, 30), "evaluating the base 2/4"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Where nobody looks at a terminal there is neither a status line nor a style.
func TestProgressInAFile(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := NewProgress(&out, true)
	p.Printf("%s", stepHeader)
	p.Status("playing", 1, 2)
	p.Printf("%s %d", "step", 1)
	p.Close()
	if want := stepHeader.String() + "\nstep 1\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// A log hears of what takes long, twice a minute, and not of its beginning and end.
func TestProgressOfWhatTakesLong(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := NewProgress(&out, true)
	var now time.Time
	p.now = func() time.Time { return now }
	for done := range 13 {
		p.Status("evaluating", done, 12)
		now = now.Add(10 * time.Second)
	}
	p.Status("step 1: rollout", 1, 2)
	if want := "evaluating: 3 of 12\nevaluating: 6 of 12\nevaluating: 9 of 12\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
