package infinirl_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/infinirl/infinirl"

// layers from the bottom up; an arrow between packages may only point down or stay
// in its layer. A folder stands for everything below it.
var layers = []struct {
	name    string
	folders []string
}{
	{"data", []string{"trajectory", "batch", "advantage", "condense", "chat", "token", "safetensors", "atomicfile", "bounded"}},
	{"engines", []string{"lm", "policy", "env", "ppo"}},
	{"loops", []string{"rollout", "pretrain", "configs", "bases", "train", "ablation"}},
	{"faces", []string{"cmd"}},
}

// allowed are the third-party modules of the data layer: what a package's own
// format needs.
var allowed = map[string][]string{
	"chat/template": {"github.com/ardanlabs/jinja"},                      // Hugging Face chat templates
	"token/bpe":     {"github.com/dlclark/regexp2", "golang.org/x/text"}, // tokenizer.json
}

type listed struct {
	ImportPath string
	Name       string
	Imports    []string
	Deps       []string
	Standard   bool
}

func TestArrowsPointDown(t *testing.T) {
	t.Parallel()
	packages := list(t)
	if len(packages) < 10 {
		t.Fatalf("go list found %d packages of the module", len(packages))
	}
	for _, p := range packages {
		if p.ImportPath == module || p.Name == "main" && !strings.HasPrefix(p.ImportPath, module+"/cmd/") {
			continue // this test, and programs that compare a package with its peers
		}
		mine := layerOf(p.ImportPath)
		if mine < 0 {
			t.Errorf("%s is in no layer: add its folder to this test and to docs/architecture.md", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			if strings.HasPrefix(imported, module+"/") && layerOf(imported) > mine {
				t.Errorf("%s (%s) imports %s (%s): arrows point down", p.ImportPath, layers[mine].name, imported, layers[layerOf(imported)].name)
			}
		}
		if layers[mine].name == "data" {
			checkPure(t, p)
		}
	}
}

// checkPure holds that a data package reaches neither the network nor a
// third-party module, but for those that its format needs.
func checkPure(t *testing.T, p listed) {
	folder := strings.TrimPrefix(p.ImportPath, module+"/")
	for _, dep := range p.Deps {
		if dep == "net" || dep == "net/http" {
			t.Errorf("%s depends on %s: the data layer has no network", p.ImportPath, dep)
		}
		first, _, _ := strings.Cut(dep, "/")
		if !strings.Contains(first, ".") || strings.HasPrefix(dep, module) || strings.HasPrefix(dep, "golang.org/x/sys") {
			continue
		}
		if !slices.ContainsFunc(allowed[folder], func(prefix string) bool { return strings.HasPrefix(dep, prefix) }) {
			t.Errorf("%s depends on %s: the data layer is the standard library", p.ImportPath, dep)
		}
	}
}

func layerOf(path string) int {
	folder := strings.TrimPrefix(path, module+"/")
	return slices.IndexFunc(layers, func(l struct {
		name    string
		folders []string
	}) bool {
		return slices.ContainsFunc(l.folders, func(f string) bool { return folder == f || strings.HasPrefix(folder, f+"/") })
	})
}

func list(t *testing.T) []listed {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Name,Imports,Deps", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var packages []listed
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p listed
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}
