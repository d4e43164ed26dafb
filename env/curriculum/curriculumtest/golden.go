package curriculumtest

import (
	"os"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/curriculum"
)

// Golden compares a task as the expert plays it, spelled message by message, with
// testdata/trajectory.txt of the world, or rewrites that file.
func Golden(t *testing.T, world curriculum.World, task int, rewrite bool) {
	t.Helper()
	const path = "testdata/trajectory.txt"
	played, err := Play(world, world.Tasks.Task(env.Eval, task), world.Expert(), LastRound)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, m := range played.Log {
		ids, err := world.Renderer.Extend(nil, []chat.Message{m})
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString(world.Renderer.Spell(ids) + "\n")
	}
	if rewrite {
		if err := os.WriteFile(path, []byte(text.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text.String() != string(want) {
		t.Errorf("%s differs, -update rewrites it; now:\n%s", path, text.String())
	}
}
