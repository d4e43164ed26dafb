package infinirl_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/infinirl/infinirl"

// order is that of all packages, from the bottom up: an arrow between packages may
// only point to one that stands before. A conformance suite stands behind the interface
// that it is of.
var order = []struct {
	layer    string
	packages []string
}{
	{"data", []string{
		"bounded", "atomicfile", "safetensors", "token", "token/bpe", "chat", "chat/chattest", "chat/template", "chat/callformat", "chat/huggingface", "condense", "condense/condensetest",
		"trajectory", "chat/recorded", "batch", "advantage", "batch/stream",
	}},
	{"engines", []string{
		"ppo", "policy", "policy/policytest", "env", "env/envtest", "env/toolcall",
		"env/taskfile", "env/tools", "env/question", "env/process", "env/exec", "env/corpus", "env/mcp",
		"env/filler", "env/curriculum", "env/curriculum/curriculumtest", "env/search", "env/keytodoor", "env/errands", "policy/scripted", "tinker", "policy/tinker",
		"lm/kernel", "lm", "learner", "learner/learnertest", "learner/embedded", "learner/tinker", "learner/tinker/tinkertest",
	}},
	{"loops", []string{"rollout", "rollout/rollouttest", "pretrain", "terminal", "train/tensorboard", "train", "ablation"}},
	{"assembly", []string{"bases", "configs", "config", "assembly"}},
	{"faces", []string{"cmd/infinirl"}},
	{"examples", []string{"examples/sampler", "examples/condenser", "examples/environment", "examples/estimator", "examples/learner", "examples/train"}},
}

// implementations may be imported by the packages named and no other: all else knows
// them by their interfaces. The examples are programs of users, who choose their own.
var implementations = map[string][]string{
	"env/search":       {"assembly"},
	"env/keytodoor":    {"assembly"},
	"env/errands":      {"assembly"},
	"env/exec":         {"assembly"},
	"env/corpus":       {"assembly"},
	"env/mcp":          {"assembly"},
	"policy/scripted":  {"assembly", "rollout/rollouttest"},
	"learner/embedded": {"assembly"},
	"learner/tinker":   {"assembly"},
	"policy/tinker":    {"assembly"},
	"tinker":           {"assembly", "learner/tinker", "policy/tinker", "learner/tinker/tinkertest"},
	"lm":               {"assembly", "learner/embedded", "learner/tinker/tinkertest", "config"}, // config: the shape of a model in YAML
	"lm/kernel":        {"assembly", "lm"},
	"token/bpe":        {"assembly", "chat/huggingface"}, // a model's folder has its tokenizer.json
	"chat/huggingface": {"assembly"},
	"chat/template":    {"assembly", "chat/huggingface"},
	"bases":            {"assembly"},
}

// allowed are the third-party modules of the data layer: what a package's own
// format needs.
var allowed = map[string][]string{
	"chat/template":    {"github.com/ardanlabs/jinja"}, // Hugging Face chat templates
	"chat/huggingface": {"github.com/ardanlabs/jinja", "github.com/dlclark/regexp2", "golang.org/x/text"},
	"token/bpe":        {"github.com/dlclark/regexp2", "golang.org/x/text"},                     // tokenizer.json
	"chat/recorded":    {"github.com/go-json-experiment/json", "github.com/klauspost/compress"}, // JSON level by level, zstd
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
		folder := strings.TrimPrefix(p.ImportPath, module+"/")
		program := strings.HasPrefix(folder, "cmd/") || strings.HasPrefix(folder, "examples/")
		if p.ImportPath == module || p.Name == "main" && !program {
			continue // this test, and programs that compare a package with its peers
		}
		mine, layer := placeOf(folder)
		if mine < 0 {
			t.Errorf("%s has no place in the order: add it to this test and to docs/architecture.md", folder)
			continue
		}
		for _, imported := range p.Imports {
			other, ours := strings.CutPrefix(imported, module+"/")
			if !ours {
				continue
			}
			if place, of := placeOf(other); place >= mine {
				t.Errorf("%s (%s) imports %s (%s), which does not stand before it", folder, layer, other, of)
			}
			if by, restricted := implementations[other]; restricted && layer != "examples" && !slices.Contains(by, folder) {
				t.Errorf("%s imports the implementation %s: want its interface, and the part handed in by %s", folder, other, strings.Join(by, ", "))
			}
		}
		if layer == "data" {
			checkPure(t, p)
		}
	}
}

// TestTheOrderIsThatOfTheDocument holds the table of docs/architecture.md to the order.
func TestTheOrderIsThatOfTheDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range order {
		row := "| " + layer.layer + " | "
		for k, name := range layer.packages {
			if k > 0 {
				row += ", "
			}
			row += "`" + name + "`"
		}
		if !strings.Contains(string(text), row+" |") {
			t.Errorf("docs/architecture.md lacks the row\n%s | …", row)
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

// placeOf returns the place of a package in the order, −1 if it has none, and its layer.
func placeOf(folder string) (place int, layer string) {
	for _, l := range order {
		for _, name := range l.packages {
			if name == folder {
				return place, l.layer
			}
			place++
		}
	}
	return -1, ""
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
