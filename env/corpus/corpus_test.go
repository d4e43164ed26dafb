package corpus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/envtest"
	"github.com/infinirl/infinirl/env/question"
	"github.com/infinirl/infinirl/env/taskfile"
	"github.com/infinirl/infinirl/env/tools"
)

// The rules of the script, case by case.
func TestNormalise(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"The Cat, sat.":         "cat sat",
		"a an the":              "",
		"theatre A an' other":   "theatre other",
		"U.S.A.":                "usa",
		"  two\u00a0 words\t\n": "two words",
		"the-end":               "theend", // the hyphen goes first
		"an_article":            "anarticle",
		"“The” ¿a?":             "“ ” ¿",
		"İstanbul ΣΑΣ":          "i̇stanbul σας",
		"1,000 $":               "1000",
		"thé a\u0301 b":         "thé ́ b", // a combining accent is no word character
		"x\x1cy":                "x y",
		"":                      "",
	} {
		if got := Normalise(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestExactMatchAndF1(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		answer string
		right  []string
		exact  bool
		f1     float64
	}{
		{"The Walls and Bridges.", []string{"Walls and bridges"}, true, 1},
		{"bridges", []string{"Walls and Bridges"}, false, 0.5},
		{"x y z", []string{"nothing", "x y"}, false, 0.8},
		{"new new york", []string{"new york york"}, false, 2. / 3},
		{"", []string{"the"}, true, 1},
		{"", []string{"x"}, false, 0},
		{"no", []string{"yes"}, false, 0},
		{"b", []string{"a", "b"}, true, 1},
	} {
		if got := ExactMatch(test.answer, test.right); got != test.exact {
			t.Errorf("%q of %q: exact %v", test.answer, test.right, got)
		}
		if got := F1(test.answer, test.right); got < test.f1-1e-12 || got > test.f1+1e-12 {
			t.Errorf("%q of %q: F1 %v, want %v", test.answer, test.right, got, test.f1)
		}
	}
}

// reference follows the rules of the script in the language they were written in.
const reference = `
import collections, json, re, string, sys
def words(s):
    s = ''.join(c for c in s.lower() if c not in set(string.punctuation))
    return re.sub(r'\b(a|an|the)\b', ' ', s).split()
def f1(gold, given):
    if not gold or not given: return float(gold == given)
    same = sum((collections.Counter(gold) & collections.Counter(given)).values())
    if same == 0: return 0.0
    p, r = same / len(given), same / len(gold)
    return 2 * p * r / (p + r)
for line in sys.stdin:
    gold, given = map(words, json.loads(line))
    print(json.dumps([' '.join(gold), ' '.join(given), f1(gold, given)]))
`

func TestSquadAsPythonHasIt(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	random := rand.New(rand.NewPCG(1, 2))
	parts := []string{"a", "an", "the", "The", "A", "cat", "dog", " ", " ", " ", "-", "_", "'", ".", "é", "É", "ß", "Σ", "İ", "中", "²", "½", "Ⅷ", "\u0301", "\u00a0", "\u2003", "\x1d", "“", "\t", "٣", "ª", "🙂"}
	var pairs [][2]string
	var in strings.Builder
	for range 3000 {
		var pair [2]string
		for k := range pair {
			for range random.IntN(12) {
				pair[k] += parts[random.IntN(len(parts))]
			}
		}
		line, err := json.Marshal(pair)
		if err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, pair)
		in.Write(append(line, '\n'))
	}
	command := exec.Command(python, "-c", reference)
	command.Stdin = strings.NewReader(in.String())
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != len(pairs) {
		t.Fatalf("%d answers to %d pairs", len(lines), len(pairs))
	}
	for i, pair := range pairs {
		var want [3]any
		if err := json.Unmarshal([]byte(lines[i]), &want); err != nil {
			t.Fatal(err)
		}
		gold, given, f1 := Normalise(pair[0]), Normalise(pair[1]), F1(pair[1], []string{pair[0]})
		if gold != want[0] || given != want[1] || f1 < want[2].(float64)-1e-12 || f1 > want[2].(float64)+1e-12 {
			t.Errorf("%q: %q, %q, %v, want %q", pair, gold, given, f1, want)
		}
	}
}

func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

const rivers = `{"id": 1, "title": "Arno", "text": "The Arno is a river that flows through Florence and Pisa."}
{"id": "po", "title": "Po", "contents": "The Po flows from the Alps to the Adriatic Sea. Turin stands at it."}

{"title": "Tiber", "content": "The Tiber flows through Rome.\n\nIt is the third-longest river in Italy."}
`

func opened(t testing.TB, cfg Config) *Corpus {
	t.Helper()
	c, err := Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func run(t testing.TB, c *Corpus, name, arguments string) string {
	t.Helper()
	set, err := tools.Open(context.Background(), tools.Default(), c.Tools())
	if err != nil {
		t.Fatal(err)
	}
	results, err := set.Run(context.Background(), []chat.ToolCall{{Name: name, Arguments: arguments}})
	if err != nil {
		t.Fatal(err)
	}
	return results[0].Content
}

func TestTools(t *testing.T) {
	t.Parallel()
	path := write(t, "rivers.jsonl", rivers)
	onDisk := Default(path)
	onDisk.Index = filepath.Join(t.TempDir(), "below", "index")
	for _, cfg := range []Config{Default(path), onDisk, onDisk} { // the last finds the index there
		c := opened(t, cfg)
		for _, test := range []struct{ name, arguments, want string }{
			{"search", `{"query": "river in Florence", "n": 1}`, "1. id: 1, title: Arno\nThe Arno is a river that flows through Florence and Pisa."},
			{"search", `{"query": "TURIN"}`, "1. id: po, title: Po\nThe Po flows from the Alps to the Adriatic Sea. Turin stands at it."},
			{"search", `{"query": "tiber"}`, "1. id: line 4, title: Tiber\nThe Tiber flows through Rome. It is the third-longest river in Italy."},
			{"search", `{"query": "+volcano \"("}`, "no results"},
			{"search", `{"query": " "}`, "error: query: want 1 to 1000 characters"},
			{"search", `{"query": "` + strings.Repeat("x", 1001) + `"}`, "error: query: want 1 to 1000 characters"},
			{"search", `{"query": "x", "n": 0}`, "error: n: 0: want 1 to 20"},
			{"search", `{"q": "x"}`, `error: arguments of search: json: unknown field "q"`},
			{"open", `{"id": 1}`, "id: 1, title: Arno\nThe Arno is a river that flows through Florence and Pisa."},
			{"open", `{"id": "line 4", "page": 1}`, "id: line 4, title: Tiber\nThe Tiber flows through Rome.\n\nIt is the third-longest river in Italy."},
			{"open", `{"id": "1", "page": 2}`, "error: page: 2: the document has 1 to 1"},
			{"open", `{"id": "seine"}`, `error: id: no document "seine"`},
			{"open", `{}`, `error: id: no document ""`},
		} {
			if got := run(t, c, test.name, test.arguments); got != test.want {
				t.Errorf("%s %s: %q, want %q", test.name, test.arguments, got, test.want)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAnIndexOfOtherDocumentsIsRefused(t *testing.T) {
	t.Parallel()
	cfg := Default(write(t, "rivers.jsonl", rivers))
	cfg.Index = filepath.Join(t.TempDir(), "index")
	opened(t, cfg).Close()
	longer := cfg
	longer.Page = 3000
	other := cfg
	other.Path = write(t, "rivers.jsonl", strings.Replace(rivers, "Florence", "Arezzo", 1))
	for _, changed := range []Config{longer, other} {
		if _, err := Open(context.Background(), changed); err == nil || !strings.Contains(err.Error(), "of other documents") {
			t.Errorf("error %v", err)
		}
	}
	none := cfg
	none.Index = t.TempDir()
	if _, err := Open(context.Background(), none); err == nil || !strings.Contains(err.Error(), "want an index, or a new folder for one") {
		t.Errorf("a folder that is no index: error %v", err)
	}
	// Two at a time may read one.
	opened(t, cfg)
	opened(t, cfg)
}

// What is interrupted leaves no index that could be taken for a whole one.
func TestAnInterruptedIndex(t *testing.T) {
	t.Parallel()
	cfg := Default(write(t, "rivers.jsonl", rivers))
	folder := t.TempDir()
	cfg.Index = filepath.Join(folder, "index")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := build(ctx, cfg, "mark"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left are %v, error %v", left, err)
	}
}

func TestAFolderOfText(t *testing.T) {
	t.Parallel()
	path := write(t, "docs/rivers/arno.txt", "Florence lies at the Arno.")
	root := filepath.Dir(filepath.Dir(path))
	for name, text := range map[string]string{"empty.md": "\n", ".hidden": "\xff", "long.md": strings.Repeat("A sentence about mills. ", 200) + "Salt."} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	c := opened(t, Default(root))
	for _, test := range []struct{ name, arguments, want string }{
		{"search", `{"query": "florence"}`, "1. id: rivers/arno.txt, title: rivers/arno\nFlorence lies at the Arno."},
		{"search", `{"query": "salt"}`, "1. id: long.md, title: long, page 3 of 3\n"},
		{"open", `{"id": "long.md", "page": 3}`, "id: long.md, title: long, page 3 of 3\n"},
		{"open", `{"id": "long.md", "page": 4}`, "error: page: 4: the document has 1 to 3"},
	} {
		if got := run(t, c, test.name, test.arguments); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s %s: %q, want %q", test.name, test.arguments, got, test.want)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "report.pdf"), []byte("%PDF\xff"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(context.Background(), Default(root)); err == nil || !strings.Contains(err.Error(), "report.pdf: not UTF-8") {
		t.Errorf("error %v", err)
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	parts := []string{"word ", "long" + strings.Repeat("x", 30), "\n", "\n\n", "é", "中", " "}
	for range 500 {
		var b strings.Builder
		for range random.IntN(60) {
			b.WriteString(parts[random.IntN(len(parts))])
		}
		const size = 50
		all := pages(b.String(), size)
		bare := func(s string) string { return strings.Join(strings.Fields(s), "") }
		if bare(strings.Join(all, "")) != bare(b.String()) {
			t.Fatalf("%q becomes %q", b.String(), all)
		}
		for _, p := range all {
			if n := utf8.RuneCountInString(p); n > size || n == 0 {
				t.Fatalf("a page of %d characters", n)
			}
		}
	}
}

func TestBadCorpora(t *testing.T) {
	t.Parallel()
	good := `{"id": "a", "text": "x"}` + "\n"
	for text, want := range map[string]string{
		good + "nonsense":                            "line 2: \"nonsense\": want one JSON object",
		good + `{"id": "b", "text": "x"`:             "line 2: ",
		good + good:                                  `line 2: id: "a": another document has it too`,
		good + `{"id": "b", "body": "x"}`:            "line 2: text: none",
		good + `{"id": "b", "text": ""}`:             "line 2: text: none",
		good + `{"id": "b", "text": 7}`:              "line 2: ",
		good + `{"id": [], "text": "x"}`:             "line 2: id: []",
		good + `{"text": "x", "contents": "y"}`:      "line 2: two of text, contents and content",
		good + "{\"id\": \"b\", \"text\": \"\xff\"}": "line 2: not UTF-8",
		good + `{"id": "b\u0000", "text": "x"}`:      "zero byte",
		"":                                           "no documents",
	} {
		_, err := Open(context.Background(), Default(write(t, "bad.jsonl", text)))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	if _, err := Open(context.Background(), Default(filepath.Join(t.TempDir(), "none.jsonl"))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

func questions(t testing.TB, c *Corpus, path string, reward string) env.Tasks {
	t.Helper()
	file, err := taskfile.Open(path, taskfile.Split{Eval: 0.25})
	if err != nil {
		t.Fatal(err)
	}
	grader := Grader{reward}
	if err := grader.Check(file); err != nil {
		t.Fatal(err)
	}
	tasks, err := question.New(question.Config{Name: "corpus", Tasks: file, System: "Search, then answer.", Sources: []tools.Source{c.Tools()}, Tools: tools.Default(), Grader: grader})
	if err != nil {
		t.Fatal(err)
	}
	return tasks
}

func TestQuestions(t *testing.T) {
	t.Parallel()
	c := opened(t, Default(write(t, "rivers.jsonl", rivers)))
	tasks := questions(t, c, write(t, "q.jsonl", `{"id": "a", "question": "Which river flows through Florence?", "answer": ["Arno", "river Arno"]}`+"\n"+`{"question": "?", "answer": "x"}`), RewardF1)
	t.Run("envtest", func(t *testing.T) { envtest.Run(t, tasks) })
	task := env.Task{ID: "a", Data: []byte(`{"question": "?", "answer": ["Arno", "river Arno"]}`)}
	e := tasks.New(0)
	if _, err := e.Reset(context.Background(), task); err != nil {
		t.Fatal(err)
	}
	o, err := e.Step(context.Background(), chat.Message{Role: chat.Assistant, ToolCalls: []chat.ToolCall{
		{ID: "1", Name: "search", Arguments: `{"query": "Florence", "n": 1}`}, {ID: "2", Name: "open", Arguments: `{"id": "po"}`},
	}})
	if err != nil || len(o.Messages) != 2 || !strings.Contains(o.Messages[0].Content, "Arno") || !strings.HasPrefix(o.Messages[1].Content, "id: po") {
		t.Fatalf("%+v, error %v", o, err)
	}
	o, err = e.Step(context.Background(), chat.Message{Role: chat.Assistant, Content: "So: <answer>the long Arno</answer>"})
	if err != nil || !o.Done || o.Success || fmt.Sprintf("%.3f", o.Reward) != "0.667" || o.Metrics["exact_match"] != 0 || o.Metrics["f1"] != o.Reward {
		t.Errorf("%+v, error %v", o, err)
	}
}

// The answers to most questions of the recorded sets stand in what a search for the
// question finds.
func TestRecordedCorpora(t *testing.T) {
	t.Parallel()
	const data = "../../../shared/data/"
	if _, err := os.Stat(data); err != nil {
		t.Skip("the recorded corpora are not there")
	}
	c := opened(t, Default(data+"multihop_corpus.jsonl"))
	tasks := questions(t, c, data+"multihop_qa.jsonl", RewardExactMatch)
	n, found, open := 0, 0, 0
	for _, split := range []env.Split{env.Train, env.Eval} {
		for i := range tasks.Len(split) {
			task := tasks.Task(split, i)
			var q struct {
				Question string
				Answer   string
				Context  []int `json:"context_doc_ids"`
			}
			if err := json.Unmarshal(task.Data, &q); err != nil {
				t.Fatal(err)
			}
			n++
			hits, err := c.find(context.Background(), q.Question, 10)
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range q.Context {
				if strings.HasPrefix(run(t, c, "open", fmt.Sprintf(`{"id": %d}`, id)), fmt.Sprintf("id: %d, ", id)) {
					open++
				}
				for _, hit := range hits {
					if hit.Document == fmt.Sprint(id) {
						found++
					}
				}
			}
			e := tasks.New(0)
			if _, err := e.Reset(context.Background(), task); err != nil {
				t.Fatal(err)
			}
			o, err := e.Step(context.Background(), chat.Message{Role: chat.Assistant, Content: q.Answer})
			if err != nil || !o.Success || o.Reward != 1 {
				t.Errorf("task %s: its own answer: %+v, error %v", task.ID, o, err)
			}
		}
	}
	t.Logf("%d questions: %d of their documents open, %d are among the first 10", n, open, found)
	if n != 69 || open < 300 || found < n {
		t.Errorf("%d questions: %d of their documents open, %d are among the first 10", n, open, found)
	}
	banking := opened(t, Default(data+"tau2_banking_docs.jsonl"))
	if got := run(t, banking, "search", `{"query": "opening a personal checking account", "n": 3}`); !strings.Contains(got, "doc_bank_accounts") {
		t.Errorf("found %q", got)
	}
	opened(t, Default(data+"searchr1_example_corpus.jsonl"))
}

func TestTheSameEveryTime(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 2500 { // more than one batch, and many that fit as well as others
		fmt.Fprintf(&text, `{"id": "d%d", "text": "mill number %d of the valley"}`+"\n", i, i%7)
	}
	path := write(t, "mills.jsonl", text.String())
	first := run(t, opened(t, Default(path)), "search", `{"query": "valley mill 3", "n": 20}`)
	onDisk := Default(path)
	onDisk.Index = filepath.Join(t.TempDir(), "index")
	for _, cfg := range []Config{Default(path), onDisk} {
		if got := run(t, opened(t, cfg), "search", `{"query": "valley mill 3", "n": 20}`); got != first {
			t.Errorf("found %q and then %q", first, got)
		}
	}
}

func TestBadAnswers(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"question": "?"}`, `{"question": "?", "answer": null}`, `{"question": "?", "answer": []}`, `{"question": "?", "answer": 7}`} {
		file, err := taskfile.Read(strings.NewReader(text), "q.jsonl", taskfile.Split{})
		if err != nil {
			t.Fatal(err)
		}
		if err := (Grader{RewardF1}).Check(file); err == nil || !strings.Contains(err.Error(), `task "line 1": answer: `) {
			t.Errorf("%s: error %v", text, err)
		}
		if _, err := (Grader{RewardF1}).Grade(context.Background(), file.Task(env.Train, 0), []chat.Message{{}}); err == nil {
			t.Errorf("%s: graded", text)
		}
	}
	if err := (Grader{"bleu"}).Check(&taskfile.File{}); err == nil || !strings.Contains(err.Error(), "want f1 or exact_match") {
		t.Errorf("error %v", err)
	}
}
