// Command compare checks the rendering of chat templates against cases that
// reference.py wrote with Python's jinja2. Started by run.sh.
//
// usage: compare CASES.jsonl
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/chat/template"
)

type testCase struct {
	Template            string         `json:"template"`
	Name                string         `json:"name"`
	Messages            []chat.Message `json:"messages"`
	Tools               []chat.Tool    `json:"tools"`
	AddGenerationPrompt bool           `json:"add_generation_prompt"`
	Variables           map[string]any `json:"variables"`
	Text                *string        `json:"text"`
	Error               string         `json:"error"`
}

func main() {
	if err := compare(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func compare(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<26)
	var names []string
	equal, all := make(map[string]int), make(map[string]int)
	lenient := 0 // rendered here, and an error in Python: strings joined with None
	shown := make(map[string]int)
	for lines.Scan() {
		var c testCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return err
		}
		if all[c.Template] == 0 {
			names = append(names, c.Template)
		}
		all[c.Template]++
		got, err := render(c)
		if c.Text == nil && err == nil {
			lenient++
			equal[c.Template]++
			continue
		}
		if c.Text == nil || err == nil && got == *c.Text {
			equal[c.Template]++
			continue
		}
		if shown[c.Template]++; shown[c.Template] <= 2 {
			fmt.Printf("%s, %s, tools %v, generation prompt %v\n  go     %q, %v\n  python %q\n", filepath.Base(c.Template), c.Name, c.Tools != nil, c.AddGenerationPrompt, got, err, *c.Text)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	exact := 0
	for _, name := range names {
		fmt.Printf("%3d of %3d equal  %s\n", equal[name], all[name], filepath.Base(name))
		if equal[name] == all[name] {
			exact++
		}
	}
	fmt.Printf("%d of %d templates render every conversation as Python does; %d conversations render that are type errors in Python\n", exact, len(names), lenient)
	return nil
}

func render(c testCase) (string, error) {
	source, err := os.ReadFile(c.Template)
	if err != nil {
		return "", err
	}
	t, err := template.Compile(string(source))
	if err != nil {
		return "", err
	}
	return t.Render(c.Messages, template.Options{Tools: c.Tools, AddGenerationPrompt: c.AddGenerationPrompt, Variables: c.Variables})
}
