package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/infinirl/infinirl/assembly"
	"github.com/infinirl/infinirl/bases"
	"github.com/infinirl/infinirl/learner/embedded"
	"github.com/infinirl/infinirl/learner/learnertest"
	"github.com/infinirl/infinirl/lm"
)

// What is exported is the embedded model, in another form: the same log-probs, and words
// of the same ids.
func TestExport(t *testing.T) {
	t.Parallel()
	for _, environment := range []string{"keytodoor", "search"} {
		dir := filepath.Join(t.TempDir(), environment)
		if err := export(environment, dir); err != nil {
			t.Fatal(err)
		}
		base, err := bases.Read(environment)
		if err != nil {
			t.Fatal(err)
		}
		want, err := lm.Unmarshal(base)
		if err != nil {
			t.Fatal(err)
		}
		got, err := lm.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		if scale := got.Config().LogitScale; scale != 1 {
			t.Errorf("%s: logit scale %v: other loaders know none", environment, scale)
		}
		world, err := assembly.World(environment)
		if err != nil {
			t.Fatal(err)
		}
		b := learnertest.Batch(3, world.VocabularySize)
		scores := func(m *lm.Model) []float32 {
			p, err := embedded.NewReference(m, embedded.Config{Temperature: 1}).LogProbs(context.Background(), b)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		a, c := scores(want), scores(got)
		for k := range a {
			if d := a[k] - c[k]; !(d < 1e-5 && d > -1e-5) {
				t.Errorf("%s: log-prob %d: %v: want %v", environment, k, c[k], a[k])
			}
		}
		var tokenizer struct {
			Model struct{ Vocab map[string]int32 }
		}
		text, err := os.ReadFile(filepath.Join(dir, "tokenizer.json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &tokenizer); err != nil {
			t.Fatal(err)
		}
		if n := len(tokenizer.Model.Vocab); n != world.VocabularySize {
			t.Errorf("%s: %d words: want %d", environment, n, world.VocabularySize)
		}
		for word, id := range tokenizer.Model.Vocab {
			if world.Renderer.Spell([]int32{id}) != word {
				t.Errorf("%s: word %q has id %d", environment, word, id)
			}
		}
	}
}
