package condense_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/chat/recorded"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/trajectory"
)

// recordedRuns are the recorded runs of agents beside the repository.
var recordedRuns = []string{
	"webdancer_sample_traj_first102.jsonl",
	"taubench_gpt4o_airline_longest77.json",
	"openhands_multi_swe_output.jsonl",
	"openhands_resolver_mock_output.jsonl",
	"sweagent_marshmallow1867_fc_replace_from_source.traj",
	"sweagent_pydicom1458.traj",
	"miniswe_github_issue.traj.json",
	"deepagents_summarization_seed_messages.json",
	"nemorl_nemo_gym_sanity.json",
	"tinker_cookbook_conversations.jsonl",
}

// readRecorded reads a file of recorded data; the test is skipped if it is absent.
func readRecorded(t testing.TB, name string) []recorded.Run {
	t.Helper()
	path := filepath.Join("..", "..", "shared", "data", name)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("no recorded data at %s", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	runs, err := recorded.Read(name, f)
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

// TestRecordedRuns cuts every recorded run with every rule at windows from 2k to
// 64k tokens and holds each to what verify checks. Some overflow: system and task
// alone are longer than the window, or a rule may not drop enough.
func TestRecordedRuns(t *testing.T) {
	t.Parallel()
	renderer := newRenderer(t, triples{})
	for _, name := range recordedRuns {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runs := readRecorded(t, name)
			if len(runs) == 0 {
				t.Fatal("no runs")
			}
			for _, run := range runs {
				var messages []chat.Message
				total := 0
				for _, m := range run.Messages {
					messages = append(messages, m.Message)
					total += len(m.Content) / 3
				}
				for high := 2048; high <= 65536; high *= 2 {
					for _, c := range cutting(high) {
						c.CutOversize = option(c, "mode") == condense.Pair
						p := play(t, messages, renderer, c)
						if err := p.verify(c); err != nil {
							t.Fatalf("run %s, %s %s, high %d: %v", run.ID, c.Rule, option(c, "mode"), high, err)
						}
					}
					if total <= high {
						break // larger windows hold all of it too
					}
				}
			}
		})
	}
}

// TestRecordedIDs cuts runs that were recorded with their token ids, by a window
// that they just fill: the ids stay what they were.
func TestRecordedIDs(t *testing.T) {
	t.Parallel()
	renderer := newRenderer(t, triples{})
	for _, run := range readRecorded(t, "nemorl_nemo_gym_sanity.json") {
		var r trajectory.Recording
		var all []int32
		for _, m := range run.Messages {
			r.Messages = append(r.Messages, trajectory.RecordedMessage{Message: m.Message, IDs: m.IDs})
			all = append(all, m.IDs...)
		}
		if all == nil {
			continue
		}
		condenser, err := condense.New(condense.DefaultFor(condense.ToolFIFO, len(all)))
		if err != nil {
			t.Fatal(err)
		}
		cut, reason, err := trajectory.Recut(r, renderer, condenser)
		if err != nil || reason != nil {
			t.Fatal(err, reason)
		}
		var got []int32
		for _, e := range cut.Entries {
			got = append(got, e.IDs...)
		}
		if !slices.Equal(got, all) {
			t.Errorf("run %s: %d ids, recorded were %d others", run.ID, len(got), len(all))
		}
	}
}
