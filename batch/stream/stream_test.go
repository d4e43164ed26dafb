package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/advantage"
	"github.com/infinirl/infinirl/batch"
)

// scoredThenRewarded is a batch of more than a few parts: trajectories that have
// only a score, then such that have rewards, then scores again.
func scoredThenRewarded(t *testing.T) *batch.Batch {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 9))
	var lines strings.Builder
	list := func(n int, of func(int) string) string {
		entries := make([]string, n)
		for k := range entries {
			entries[k] = of(k)
		}
		return "[" + strings.Join(entries, ",") + "]"
	}
	for j := range 300 {
		for k := range 2 {
			n := 200 + rng.IntN(1200)
			ids := list(n, func(int) string { return fmt.Sprint(rng.IntN(1000)) })
			mask := list(n, func(t int) string { return fmt.Sprint((t / 30) & 1) })
			rewards := ""
			if j/100 == 1 {
				rewards = `,"rewards":` + list(n, func(int) string { return fmt.Sprint(rng.IntN(3)) })
			}
			fmt.Fprintf(&lines, `{"trajectory_id":"t%d","inv_iter":%d,"prompt_ids":[1,2],"response_ids":%s,"loss_mask":%s,"score":%d,"success":%v,"error":"e%d","next_ids":[%d],"policy_version":%d,"oldest_policy_version":3%s}`+"\n",
				j, 1-k, ids, mask, j%7, j%2 == 0, j%3, j, 4+j%3, rewards)
		}
	}
	b, err := batch.ReadJSONLines(strings.NewReader(lines.String()))
	if err != nil {
		t.Fatal(err)
	}
	// As the lines tell it, and not as the batch has placed the scores already.
	if b.Rewards == nil {
		t.Fatal("no rewards")
	}
	return b
}

// withoutPlaced writes the batch as JSON Lines in which trajectories without rewards
// have none.
func withoutPlaced(b *batch.Batch) []byte {
	var out []byte
	bare := *b
	bare.Rewards = nil
	for i := range b.Rows {
		if i/200 == 1 {
			out = b.AppendJSON(out, i)
		} else {
			out = bare.AppendJSON(out, i)
		}
	}
	return out
}

func open(t *testing.T, data []byte, format Format) *Reader {
	t.Helper()
	path := filepath.Join(t.TempDir(), "batch")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	in, err := NewReader(file, "batch", format)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(in.Close)
	return in
}

func written(t *testing.T, b *batch.Batch, format Format) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := Write(t.Context(), &out, b, format); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// A batch that goes in parts from one form to another is the batch, to the byte,
// whichever parts lacked rewards.
func TestPartsMakeTheBatch(t *testing.T) {
	t.Parallel()
	b := scoredThenRewarded(t)
	for from, data := range map[Format][]byte{JSONLines: withoutPlaced(b), Safetensors: written(t, b, Safetensors), Packed: written(t, b, Packed)} {
		for _, format := range []Format{Safetensors, Packed, JSONLines} {
			in := open(t, data, "") // finds the format out
			if (in.Format() == JSONLines) != (from == JSONLines) {
				t.Fatalf("%s was taken for %s", from, in.Format())
			}
			var out bytes.Buffer
			w := NewWriter(&out, format)
			parts := 0
			err := in.Parts(t.Context(), func(part *batch.Batch) error {
				parts++
				return w.Add(part)
			})
			if err == nil {
				err = w.Finish()
			}
			w.Close()
			if err != nil || parts < 2 {
				t.Fatalf("%s to %s: %d parts, %v", from, format, parts, err)
			}
			again, err := open(t, out.Bytes(), format).Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(written(t, again, Safetensors), written(t, b, Safetensors)) {
				t.Errorf("%s in parts to %s: not the batch", from, format)
			}
			if format != JSONLines && !bytes.Equal(out.Bytes(), written(t, b, format)) {
				t.Errorf("%s in parts to %s: other bytes than at once", from, format)
			}
		}
	}
}

// Advantages in parts equal those of the whole, from and to every form.
func TestAdvantages(t *testing.T) {
	t.Parallel()
	b := scoredThenRewarded(t)
	cfg := advantage.Config{Estimator: "gae", Gamma: .99, Lambda: .9, CriticLambda: 1}
	want := b.Select(rowsInOrder(b))
	if err := advantage.Compute(want, cfg); err != nil {
		t.Fatal(err)
	}
	for _, data := range [][]byte{withoutPlaced(b), written(t, b, Safetensors), written(t, b, Packed)} {
		for _, format := range []Format{JSONLines, Safetensors, Packed} {
			for _, pipe := range []bool{false, true} {
				in := open(t, data, "")
				if pipe {
					var err error
					if in, err = NewReader(io.NopCloser(bytes.NewReader(data)), "pipe", ""); err != nil {
						t.Fatal(err)
					}
					t.Cleanup(in.Close)
				}
				out, err := os.Create(filepath.Join(t.TempDir(), "out"))
				if err != nil {
					t.Fatal(err)
				}
				defer out.Close()
				done, err := Advantages(t.Context(), in, out, format, cfg, cfg)
				if err != nil || done.Rows != len(b.Rows) || done.Trajectories != 300 || !done.NoValues || done.Left.Trajectories != 0 {
					t.Fatalf("report %+v, %v", done, err)
				}
				got, err := os.ReadFile(out.Name())
				if err != nil {
					t.Fatal(err)
				}
				again, err := open(t, got, format).Read(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(again.Advantages, want.Advantages) || !slices.Equal(again.Returns, want.Returns) || !slices.Equal(again.Rewards, want.Rewards) {
					t.Errorf("%s to %s: other advantages or rewards than at once", in.Format(), format)
				}
			}
		}
	}
}

func rowsInOrder(b *batch.Batch) []int {
	rows := make([]int, len(b.Rows))
	for i := range rows {
		rows[i] = i
	}
	return rows
}

func TestUnsortedAndBadInput(t *testing.T) {
	t.Parallel()
	line := func(id string, inv int) string {
		return fmt.Sprintf(`{"trajectory_id":%q,"inv_iter":%d,"response_ids":[1],"loss_mask":[1],"score":1}`, id, inv) + "\n"
	}
	unsorted := line("a", 0) + line("b", 0) + line("a", 1)
	err := open(t, []byte(unsorted), "").Parts(t.Context(), func(*batch.Batch) error { return nil })
	if !errors.Is(err, ErrUnsorted) {
		t.Errorf("unsorted lines: %v", err)
	}
	b, err := batch.ReadJSONLines(strings.NewReader(unsorted))
	if err != nil {
		t.Fatal(err)
	}
	err = open(t, written(t, b, Safetensors), "").Parts(t.Context(), func(*batch.Batch) error { return nil })
	if !errors.Is(err, ErrUnsorted) {
		t.Errorf("unsorted columns: %v", err)
	}
	for name, c := range map[string]struct{ data, want string }{
		"line":    {line("a", 0) + "{}\n", `batch:2: trajectory "": trajectory_id is missing`},
		"row":     {line("a", 0) + line("a", 0), `batch:2: trajectory "a": inv_iter 0 comes twice`},
		"nothing": {"", "batch: no rows"},
	} {
		for way, read := range map[string]func(*Reader) error{
			"whole":    func(in *Reader) error { _, err := in.Read(t.Context()); return err },
			"in parts": func(in *Reader) error { return in.Parts(t.Context(), func(*batch.Batch) error { return nil }) },
		} {
			err := read(open(t, []byte(c.data), ""))
			if way == "in parts" && name == "row" && errors.Is(err, ErrUnsorted) {
				continue // reading all of it will tell
			}
			if bad := (*ContentError)(nil); !errors.As(err, &bad) || err.Error() != c.want {
				t.Errorf("%s, %s: %v: want %s", name, way, err, c.want)
			}
		}
	}
	// Rows of a too large score, then rewards: the writer cannot tell them as rewards.
	w := NewWriter(io.Discard, Safetensors)
	defer w.Close()
	for _, text := range []string{strings.Replace(line("a", 0), `"score":1`, `"score":1e300`, 1), strings.Replace(line("b", 0), `"score":1`, `"rewards":[1]`, 1)} {
		part, err := batch.ReadJSONLines(strings.NewReader(text))
		if err == nil {
			err = w.Add(part)
		}
		if want := `trajectory "a": score 1e+300: does not fit the 32 bits of a reward`; strings.Contains(text, "rewards") == (err == nil) || err != nil && err.Error() != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The context ends reading in parts.
func TestPartsEndWithTheContext(t *testing.T) {
	t.Parallel()
	b := scoredThenRewarded(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := open(t, withoutPlaced(b), "").Parts(ctx, func(*batch.Batch) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
