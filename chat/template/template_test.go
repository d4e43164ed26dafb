package template

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/infinirl/infinirl/chat"
)

func compileFile(t testing.TB, name string) *Template {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := Compile(string(source))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return compiled
}

// TestAgainstPython compares with what Python's jinja2 rendered (see testdata).
func TestAgainstPython(t *testing.T) {
	t.Parallel()
	f, err := os.Open(filepath.Join("testdata", "cases.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	templates := make(map[string]*Template)
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	n := 0
	for lines.Scan() {
		var c struct {
			Template            string
			Name                string
			Messages            []chat.Message
			Tools               []chat.Tool
			AddGenerationPrompt bool `json:"add_generation_prompt"`
			Variables           map[string]any
			Text                *string
			Error               string
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		if templates[c.Template] == nil {
			templates[c.Template] = compileFile(t, c.Template)
		}
		got, err := templates[c.Template].Render(c.Messages, Options{Tools: c.Tools, AddGenerationPrompt: c.AddGenerationPrompt, Variables: c.Variables})
		switch {
		case c.Text == nil && !strings.Contains(c.Error, "None"):
			t.Errorf("%s, %s: Python fails: %s", c.Template, c.Name, c.Error)
		case c.Text != nil && (err != nil || got != *c.Text):
			t.Errorf("%s, %s\n got %q, %v\nwant %q", c.Template, c.Name, got, err, *c.Text)
		}
		n++
	}
	if err := lines.Err(); err != nil || n < 200 {
		t.Errorf("%d cases, %v", n, err)
	}
}

// TestBadTemplates checks that templates that fail, loop or recurse are errors.
func TestBadTemplates(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"{{ raise_exception('no tools please') }}":                                                        "no tools please",
		"{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}":                "loops without end",
		"{% for a in range(1000000000000) %}{% endfor %}":                                                 "range: more than 1,000,000 numbers",
		"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}":                                                 "recurses without end",
		"{%- macro a() -%}{{ b() }}{%- endmacro -%}{%- macro b() -%}{{ a() }}{%- endmacro -%}{{- a() -}}": "recurses without end",
		"a\n{% if %}":                   "line 2: unexpected end: want an expression",
		"a\nb {{ 'x ":                   "line 2: the tag",
		"{# never closed":               "line 1: the tag",
		"{% raw %} {{ x }}":             "raw",
		"{% for m in messages %}":       "{% for %} is not closed",
		"{{ messages[0].content.x() }}": "chat template: ",
		"{{ range(0, 5, 0) }}":          "a step of 0",
		"{{ range('x') }}":              "range: want",
		"{{ nothing | tojson }}":        "tojson: a value that is undefined",
		"{{ 1 | unheard_of }}":          "unheard_of",
	} {
		compiled, err := Compile(source)
		if err == nil {
			_, err = compiled.Render([]chat.Message{{Role: chat.User, Content: "hi"}}, Options{})
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "chat template: ") {
			t.Errorf("%.60q: error %v, want %q", source, err, want)
		}
	}
}

func TestReadConfig(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"bos_token":"<s>","eos_token":{"content":"</s>"},"chat_template":"{{ bos_token }}{{ eos_token }}"}`:               "<s></s>",
		`{"bos_token":null,"chat_template":[{"name":"tool_use","template":"tools"},{"name":"default","template":"plain"}]}`: "plain",
		`{"chat_template":[{"name":"tool_use","template":"tools"}]}`:                                                        `none is called "default", there are tool_use`,
		`{}`:                     "chat_template: there is none",
		`{`:                      "tokenizer config: ",
		`{"chat_template":7}`:    "want a text or a list",
		`{"chat_template":"{{"}`: "chat template: line 1",
	} {
		compiled, variables, err := ReadConfig(strings.NewReader(text), "")
		got := ""
		if err != nil {
			got = err.Error()
		} else if got, err = compiled.Render(nil, Options{Variables: variables}); err != nil {
			t.Error(err)
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// FuzzCompile checks that every source ends, in an error of one line or a text, and that
// neither Compile nor Render panics or takes long.
func FuzzCompile(f *testing.F) {
	for _, name := range []string{"chatml.jinja", "thinking.jinja", "whitespace.jinja"} {
		source, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(source))
	}
	for source := range hostile {
		if len(source) < 500 && !strings.Contains(source, "00000") { // the others take seconds
			f.Add(source)
		}
	}
	f.Fuzz(func(t *testing.T, source string) {
		if strings.Contains(source, "0000") {
			t.Skip("a loop up to a bound")
		}
		if _, err := rewrite(source); err != nil && !strings.HasPrefix(err.Error(), "line ") {
			t.Errorf("error without line: %v", err)
		}
		start := time.Now()
		compiled, err := Compile(source)
		if err == nil {
			_, err = compiled.Render([]chat.Message{{Role: chat.User, Content: "hi"}, {Role: chat.Assistant, Content: "x", ToolCalls: []chat.ToolCall{{Name: "f", Arguments: `{"a": [1]}`}}}}, Options{})
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("error of more than one line: %q", err)
		}
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
