package trajectory

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/token"
)

// renderer has one-word messages: sys, user_q, a1, t1, a2, t2, ...
func renderer(t testing.TB) *chat.Words {
	t.Helper()
	words := append(chat.WordControls(), "sys", "user_q", "call")
	for i := 1; i <= 40; i++ {
		words = append(words, fmt.Sprintf("a%d", i), fmt.Sprintf("t%d", i))
	}
	v, err := token.NewVocabulary(words)
	if err != nil {
		t.Fatal(err)
	}
	w, err := chat.NewWords(v, nil)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// play runs a trajectory of twelve turns: reply a_i, answered by t_i.
func play(t testing.TB, c condense.Config) (*Trajectory, [][]int32) {
	t.Helper()
	condenser, err := condense.New(c)
	if err != nil {
		t.Fatal(err)
	}
	w := renderer(t)
	r := NewRecorder("t0", "g0", w, condenser)
	if err := r.Observe(chat.Message{Role: chat.System, Content: "sys"}, chat.Message{Role: chat.User, Content: "user_q"}); err != nil {
		t.Fatal(err)
	}
	var prompts [][]int32 // as the sampler saw them
	for i := 1; i <= 12; i++ {
		prompt, err := r.Prompt(2)
		if err != nil {
			t.Fatal(err)
		}
		prompts = append(prompts, prompt)
		reply, err := chat.Reply(w, chat.Message{Role: chat.Assistant, Content: fmt.Sprintf("a%d", i)})
		if err != nil {
			t.Fatal(err)
		}
		logProbs := []float32{-float32(i), -0.5}
		if _, err := r.Reply(reply, logProbs, Versions{int64(i), int64(i)}); err != nil {
			t.Fatal(err)
		}
		r.Reward(float64(i))
		if err := r.Observe(chat.Message{Role: chat.ToolRole, Content: fmt.Sprintf("t%d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	return r.Close(Finished), prompts
}

// spell writes ids as words without the control words.
func spell(t testing.TB, ids []int32) string {
	t.Helper()
	m, err := renderer(t).DecodeMessages(ids)
	if err != nil {
		t.Fatal(err)
	}
	var text []string
	for _, m := range m {
		text = append(text, m.Content)
	}
	return strings.Join(text, " ")
}

// TestPicture cuts twelve turns as the usual picture of a condensed trajectory
// does: skeletons of the last result alone, or of the last round.
func TestPicture(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string][]string{
		// Messages have 3 tokens; the window holds 8 messages and the next reply.
		condense.Result: {
			"sys user_q | a1 t1 a2 t2 a3 t3 a4",
			"sys user_q t4 | a5 t5 a6 t6 a7",
			"sys user_q t7 | a8 t8 a9 t9 a10",
			"sys user_q t10 | a11 t11 a12",
		},
		condense.Pair: {
			"sys user_q | a1 t1 a2 t2 a3 t3 a4",
			"sys user_q a4 t4 | a5 t5 a6 t6 a7",
			"sys user_q a7 t7 | a8 t8 a9 t9 a10",
			"sys user_q a10 t10 | a11 t11 a12",
		},
	} {
		c := condense.Config{Rule: condense.ToolFIFO, High: 29, Low: 15, KeepLast: 1, Options: condense.Options{"mode": mode}}
		if mode == condense.Result {
			c.High = 27
			c.Low = 12
		}
		tr, _ := play(t, c)
		rows, err := tr.Samples()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for k, row := range rows {
			if row.InvIter != len(rows)-1-k {
				t.Errorf("row %d has inv_iter %d", k, row.InvIter)
			}
			prompt := row.Prompt[:len(row.Prompt)-1] // without the generation prefix
			all := append(slices.Clone(row.Prompt), row.Response...)
			got = append(got, spell(t, prompt)+" |"+strings.TrimPrefix(spell(t, all), spell(t, prompt)))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s\n got %s\nwant %s", mode, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
		}
	}
}

// TestTrainedOnce checks that the rows hold each sampled token with mask 1 exactly
// once, after the very ids that the sampler saw, with its log-prob and version.
func TestTrainedOnce(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{condense.Pair, condense.Result} {
		for high := 15; high < 60; high++ {
			tr, prompts := play(t, condense.Config{Rule: condense.ToolFIFO, High: high, Low: high / 2, KeepLast: 1, Options: condense.Options{"mode": mode}})
			rows, err := tr.Samples()
			if err != nil {
				t.Fatal(err)
			}
			turn := 0
			for _, row := range rows {
				ids := append(slices.Clone(row.Prompt), row.Response...)
				if len(ids) > high {
					t.Fatalf("high %d: a row of %d tokens", high, len(ids))
				}
				for i := 0; i < len(row.Response); i++ {
					if !row.Mask[i] {
						if row.LogProbs[i] != 0 || row.Rewards[i] != 0 {
							t.Fatalf("log-prob or reward on an untrained token")
						}
						continue
					}
					turn++
					if seen := ids[:len(row.Prompt)+i]; !slices.Equal(seen, prompts[turn-1]) {
						t.Fatalf("high %d, turn %d: trained after %v, sampled after %v", high, turn, seen, prompts[turn-1])
					}
					if !row.Mask[i+1] || row.LogProbs[i] != -float32(turn) || row.Rewards[i+1] != float32(turn) {
						t.Fatalf("turn %d: mask %v, log-prob %v, reward %v", turn, row.Mask[i+1], row.LogProbs[i], row.Rewards[i+1])
					}
					if v := int64(turn); v < row.OldestVersion || v > row.NewestVersion {
						t.Fatalf("version %d outside [%d,%d]", v, row.OldestVersion, row.NewestVersion)
					}
					i++
				}
				if !row.Mask[len(row.Mask)-1] {
					t.Fatal("the response goes on after its last sampled token")
				}
			}
			if turn != 12 {
				t.Fatalf("high %d: %d turns trained, want 12", high, turn)
			}
		}
	}
}

func TestEndings(t *testing.T) {
	t.Parallel()
	w := renderer(t)
	for _, c := range []struct {
		config condense.Config
		want   Status
		text   string
	}{
		{condense.Config{Rule: condense.ToolFIFO, High: 7, Low: 7, Options: condense.Options{"mode": condense.Pair}}, ContextOverflow,
			"trajectory t0, message 2: context overflow: 2 messages of 6 tokens that tool-fifo must keep and 3 reserved tokens exceed high 7"},
		{condense.Config{Rule: condense.None, High: 8}, Truncated, "2 messages of 6 tokens that none must keep"},
	} {
		condenser, err := condense.New(c.config)
		if err != nil {
			t.Fatal(err)
		}
		r := NewRecorder("t0", "", w, condenser)
		if err := r.Observe(chat.Message{Role: chat.System, Content: "sys"}, chat.Message{Role: chat.User, Content: "user_q"}); err != nil {
			t.Fatal(err)
		}
		_, err = r.Prompt(2)
		if status, ok := StatusOf(err); !ok || status != c.want || !strings.Contains(err.Error(), c.text) {
			t.Errorf("status %q, %v; want %q, %q", status, err, c.want, c.text)
		}
		if rows, err := r.Close(c.want).Samples(); len(rows) > 0 || err != nil {
			t.Errorf("%d rows, %v", len(rows), err)
		}
	}
	if _, ok := StatusOf(errors.New("server gone")); ok {
		t.Error("any error ends a trajectory well")
	}
}
