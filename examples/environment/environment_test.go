package environment

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/envtest"
	"github.com/infinirl/infinirl/env/toolcall"
	"github.com/infinirl/infinirl/token"
)

func numbers(t testing.TB) *Tasks {
	t.Helper()
	f, err := os.Open("numbers.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tasks, err := Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return tasks
}

func TestEnvironment(t *testing.T) { envtest.Run(t, numbers(t)) }

func guess(n int) chat.Message { return toolcall.New("guess", Guess{n}) }

func TestAGame(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		actions []chat.Message
		want    []string
		reward  float64
	}{
		{"found", []chat.Message{guess(5), guess(8), guess(7)}, []string{"one of 6 to 9 , 3 guesses left .", "one of 6 to 7 , 2 guesses left .", "right ."}, 1},
		{"hints only narrow", []chat.Message{guess(6), guess(2), guess(99)}, []string{"one of 7 to 9 , 3 guesses left .", "one of 7 to 9 , 2 guesses left .", "one of 7 to 9 , 1 guesses left ."}, 0},
		{"mistakes cost guesses", []chat.Message{
			{Role: chat.Assistant, Content: "7"}, toolcall.New("guess", map[string]string{"number": "seven"}), toolcall.New("shout", Guess{7}), guess(1),
		}, []string{
			"error : call guess . one of 1 to 9 , 3 guesses left .", "error : arguments . one of 1 to 9 , 2 guesses left .",
			"error : call guess . one of 1 to 9 , 1 guesses left .", "one of 2 to 9 , 0 guesses left .",
		}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			tasks, err := Read(strings.NewReader(`{"id": "a", "split": "train", "most": 9, "secret": 7, "turns": 4}`))
			if err != nil {
				t.Fatal(err)
			}
			words, err := token.NewVocabulary(tasks.Words())
			if err != nil {
				t.Fatal(err)
			}
			e := tasks.New(0)
			o, err := e.Reset(context.Background(), tasks.Task(env.Train, 0))
			if err != nil {
				t.Fatal(err)
			}
			var reward float64
			for i, action := range test.actions {
				if o, err = e.Step(context.Background(), action); err != nil {
					t.Fatal(err)
				}
				if got := o.Messages[0].Content; got != test.want[i] {
					t.Errorf("action %d is answered %q, want %q", i, got, test.want[i])
				}
				if _, err := words.Encode(o.Messages[0].Content); err != nil {
					t.Error(err)
				}
				reward += o.Reward
			}
			wantDone := test.reward == 1 || len(test.actions) == 4
			if reward != test.reward || o.Done != wantDone || o.Success != (test.reward == 1) {
				t.Errorf("reward %v, done %v, success %v, want reward %v, done %v", reward, o.Done, o.Success, test.reward, wantDone)
			}
		})
	}
}

// Every task can be solved by who heeds the answers, within its guesses.
func TestEveryTaskCanBeSolved(t *testing.T) {
	t.Parallel()
	tasks := numbers(t)
	for _, split := range []env.Split{env.Train, env.Eval, env.Clone} {
		for i := range tasks.Len(split) {
			e := tasks.New(0)
			o, err := e.Reset(context.Background(), tasks.Task(split, i))
			if err != nil {
				t.Fatal(err)
			}
			known := o.Messages[1].Content
			for !o.Done {
				var low, high, left int
				if _, err := fmt.Sscanf(known, "one of %d to %d , %d guesses left .", &low, &high, &left); err != nil {
					t.Fatal(err)
				}
				if o, err = e.Step(context.Background(), guess((low+high)/2)); err != nil {
					t.Fatal(err)
				}
				known = o.Messages[0].Content
			}
			if !o.Success {
				t.Errorf("task %s is not solved by halving", tasks.Task(split, i).ID)
			}
		}
	}
}

func TestBadTasks(t *testing.T) {
	t.Parallel()
	const good = `{"id": "a", "split": "train", "most": 9, "secret": 7, "turns": 4}` + "\n"
	for _, test := range []struct{ text, want string }{
		{"nonsense", "task 1: "},
		{good + good, `task 2: id: "a"`},
		{`{"id": "a", "split": "test", "most": 9, "secret": 7, "turns": 4}`, `split: "test"`},
		{`{"id": "a", "split": "train", "most": 9, "secret": 10, "turns": 4}`, "secret: 10"},
		{`{"id": "a", "split": "train", "most": 9, "secret": 7}`, "turns: 0"},
		{`{"id": 7}`, "task 1: "},
	} {
		if _, err := Read(strings.NewReader(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", test.text, err, test.want)
		}
	}
}
