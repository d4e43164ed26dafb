package trajectory

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/token"
)

func user(text string) RecordedMessage {
	return RecordedMessage{Message: chat.Message{Role: chat.User, Content: text}}
}

func assistant(text string) RecordedMessage {
	return RecordedMessage{Message: chat.Message{Role: chat.Assistant, Content: text}}
}

// What the policy did not sample is shown and never trained, and a task that comes after
// a demonstration stays in every window.
func TestDemonstrationsAreShownAndNotTrained(t *testing.T) {
	t.Parallel()
	w := renderer(t)
	shown := assistant("a1")
	shown.NotSampled = true
	task := user("user_q")
	task.Task = true
	o := Recording{ID: "t", Messages: []RecordedMessage{user("sys"), shown, user("t1"), task}}
	for i := 2; i <= 12; i++ {
		o.Messages = append(o.Messages, assistant("a2"), user("t2"))
	}
	o.Messages = append(o.Messages, assistant("a12"))
	c := condense.DefaultFor(condense.Sliding, 29)
	c.KeepLast = 0
	condenser, err := condense.New(c)
	if err != nil {
		t.Fatal(err)
	}
	tr, reason, err := Recut(o, w, condenser)
	if err != nil || reason != nil || len(tr.Segments) < 2 {
		t.Fatalf("%d segments, %v, %v", len(tr.Segments), reason, err)
	}
	if e := tr.Entries[1]; e.Sampled() {
		t.Errorf("the demonstration is taken for sampled: %+v", e)
	}
	for k := range tr.Segments {
		prompt, err := tr.Prompt(k)
		if err != nil {
			t.Fatal(err)
		}
		ids := tr.IDs(3)
		found := false
		for at := range prompt {
			found = found || len(prompt)-at >= len(ids) && slices.Equal(prompt[at:at+len(ids)], ids)
		}
		if !found {
			t.Errorf("segment %d does not show the task", k)
		}
	}
	// The log keeps all of it.
	text, err := json.Marshal(tr)
	if err != nil {
		t.Fatal(err)
	}
	var again Trajectory
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(*tr, again) {
		t.Errorf("written and read again it is\n%+v\nwant\n%+v", again, *tr)
	}
}

// Recorded ids are taken as they are: where the sampled range is known, the prefix that
// was recorded opens the reply.
func TestRecordedRangesAreKept(t *testing.T) {
	t.Parallel()
	condenser, err := condense.New(condense.DefaultFor(condense.ToolFIFO, 1000))
	if err != nil {
		t.Fatal(err)
	}
	first := user("user_q")
	first.IDs = []int32{1, 2, 3}
	reply := assistant("a1")
	reply.IDs, reply.Start, reply.End, reply.LogProbs = []int32{7, 8, 9, 10}, 1, 3, []float32{-1, -2}
	tr, _, err := Recut(Recording{ID: "t", Messages: []RecordedMessage{first, reply}}, renderer(t), condenser)
	if err != nil {
		t.Fatal(err)
	}
	samples, err := tr.Samples()
	if err != nil {
		t.Fatal(err)
	}
	want := Sample{TrajectoryID: "t", Status: Finished, Prompt: []int32{1, 2, 3, 7}, Response: []int32{8, 9}, Mask: []bool{true, true},
		LogProbs: []float32{-1, -2}, Condense: samples[0].Condense}
	if len(samples) != 1 || !reflect.DeepEqual(samples[0], want) {
		t.Errorf("samples %+v, want %+v", samples, want)
	}
}

// Ids of replies alone are what was sampled; those of another tokenizer are an error.
func TestRecordedRepliesAmongRenderedMessages(t *testing.T) {
	t.Parallel()
	condenser, err := condense.New(condense.DefaultFor(condense.ToolFIFO, 1000))
	if err != nil {
		t.Fatal(err)
	}
	w := renderer(t)
	sampled, err := chat.Reply(w, chat.Message{Role: chat.Assistant, Content: "a1"})
	if err != nil {
		t.Fatal(err)
	}
	reply := assistant("a1")
	reply.IDs = sampled
	tr, _, err := Recut(Recording{ID: "t", Messages: []RecordedMessage{user("user_q"), reply}}, w, condenser)
	if err != nil {
		t.Fatal(err)
	}
	samples, err := tr.Samples()
	if err != nil {
		t.Fatal(err)
	}
	prompt, err := w.Start([]chat.Message{{Role: chat.User, Content: "user_q"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := append(prompt, w.GenerationPrefix()...); !slices.Equal(samples[0].Prompt, want) || !slices.Equal(samples[0].Response, sampled) {
		t.Errorf("prompt %v and response %v, want %v and %v", samples[0].Prompt, samples[0].Response, want, sampled)
	}
	reply.IDs = []int32{sampled[0] + 1}
	if _, _, err := Recut(Recording{ID: "t", Messages: []RecordedMessage{user("user_q"), reply}}, w, condenser); err == nil || !strings.Contains(err.Error(), "another tokenizer") {
		t.Errorf("error %v", err)
	}
	reply.IDs = []int32{} // which would leave out what it says
	if _, _, err := Recut(Recording{ID: "t", Messages: []RecordedMessage{user("user_q"), reply}}, w, condenser); err == nil || !strings.Contains(err.Error(), "message 1: no token id of an assistant message that says something") {
		t.Errorf("error %v", err)
	}
}

// A trajectory that is condensed once more from its messages and tools has the prompts
// that the sampler saw, also where the renderer writes the tools' schemas.
func TestRecutOfATrajectoryWithTools(t *testing.T) {
	t.Parallel()
	renderer, err := chat.NewChatML(token.Bytes{})
	if err != nil {
		t.Fatal(err)
	}
	condenser, err := condense.New(condense.DefaultFor(condense.ToolFIFO, 1400))
	if err != nil {
		t.Fatal(err)
	}
	tools := []chat.Tool{{Name: "look", Parameters: json.RawMessage(`{"type":"object","properties":{}}`)}}
	r := NewRecorder("t", "g", renderer, condenser)
	if err := r.Start([]chat.Message{{Role: chat.User, Content: "Find x."}}, tools); err != nil {
		t.Fatal(err)
	}
	call := chat.Message{Role: chat.Assistant, ToolCalls: []chat.ToolCall{{Name: "look", Arguments: "{}"}}}
	sampled, err := chat.Reply(renderer, call)
	if err != nil {
		t.Fatal(err)
	}
	for range 12 {
		if _, err := r.Prompt(len(sampled)); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Reply(sampled, nil, Versions{}); err != nil {
			t.Fatal(err)
		}
		if err := r.Observe(chat.Message{Role: chat.ToolRole, Content: "nothing here"}); err != nil {
			t.Fatal(err)
		}
	}
	played := r.Close(Finished)
	o := Recording{ID: "t", Group: "g", Tools: played.Tools, Reply: len(sampled)}
	for _, e := range played.Entries {
		o.Messages = append(o.Messages, RecordedMessage{Message: e.Message})
	}
	again, reason, err := Recut(o, renderer, condenser)
	if err != nil || reason != nil || len(played.Segments) < 2 || len(again.Segments) != len(played.Segments) {
		t.Fatalf("%d segments, condensed again %+v: %v, %v", len(played.Segments), again, reason, err)
	}
	for k := range played.Segments {
		a, errA := played.Prompt(k)
		b, errB := again.Prompt(k)
		if errA != nil || errB != nil || !slices.Equal(a, b) {
			t.Errorf("segment %d: prompts %v and %v (%v, %v)", k, a, b, errA, errB)
		}
	}
}

// A summary behind which the reply does not fit either is taken back: the log ends as
// it does where the condenser is told of no such reply.
func TestSummariesWithoutAReplyAreTakenBack(t *testing.T) {
	t.Parallel()
	renderer, err := chat.NewChatML(token.Bytes{})
	if err != nil {
		t.Fatal(err)
	}
	c := condense.DefaultFor(condense.Summary, 900)
	c.Set("summary_tokens", 60)
	condenser, err := condense.New(c)
	if err != nil {
		t.Fatal(err)
	}
	o := Recording{ID: "t", Messages: []RecordedMessage{user("q"), assistant(strings.Repeat("a ", 100)), user("r"), assistant(strings.Repeat("b ", 150)), user("s"), assistant(strings.Repeat("c ", 425))}}
	asked := 0
	o.Summarize = func(_ []int32, n int) ([]int32, error) {
		asked++
		return renderer.EncodeText(strings.Repeat("s", n))
	}
	tr, reason, err := Recut(o, renderer, condenser)
	if err != nil || reason == nil || tr.Status != ContextOverflow || asked == 0 {
		t.Fatalf("%d summaries, %v, %v, %v", asked, tr.Status, reason, err)
	}
	o.Messages = o.Messages[:5]
	whole, reason, err := Recut(o, renderer, condenser)
	if err != nil || reason != nil {
		t.Fatal(reason, err)
	}
	whole.Status = tr.Status
	if got, want := marshal(t, tr), marshal(t, whole); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func marshal(t *testing.T, tr *Trajectory) string {
	t.Helper()
	if err := tr.Validate(); err != nil {
		t.Error(err)
	}
	text, err := json.Marshal(tr)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// touching writes a record that says one thing in two ranges.
type touching struct{ condense.Condenser }

func (touching) Condense(w condense.Window) (condense.Decision, error) {
	return condense.Decision{Changed: true, Record: condense.Record{Version: condense.RecordVersion, Messages: w.Messages,
		Keep: []condense.Range{{Start: 0, End: 1}, {Start: 1, End: 2}}}}, nil
}

func TestRecordsOfCondensersAreValid(t *testing.T) {
	t.Parallel()
	renderer, err := chat.NewChatML(token.Bytes{})
	if err != nil {
		t.Fatal(err)
	}
	o := Recording{ID: "t", Messages: []RecordedMessage{user("q"), user("r"), assistant("a")}}
	if _, _, err := Recut(o, renderer, touching{}); err == nil || !strings.Contains(err.Error(), "do not touch") {
		t.Errorf("error %v, want one about the record", err)
	}
}
