package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const golden = `{"trajectory_id":"t","group_id":"g","inv_iter":2,"prompt_ids":[1,2],"response_ids":[5,6,7,8],"loss_mask":[1,1,0,1],"values":[0.1,0.2,9,0.3],"rewards":[0,0,0,0]}
{"trajectory_id":"t","group_id":"g","inv_iter":1,"response_ids":[5,6,7],"loss_mask":[0,1,1],"values":[9,0.4,0.5],"rewards":[0,0,0]}
{"trajectory_id":"t","group_id":"g","inv_iter":0,"response_ids":[5,6,7,8],"loss_mask":[1,1,1,0],"values":[0.6,0.7,0.8,9],"rewards":[0,0,1,0],"status":"finished"}
`

func TestAdvantage(t *testing.T) {
	t.Parallel()
	want := `{"trajectory_id":"t","group_id":"g","inv_iter":2,"prompt_ids":[1,2],"response_ids":[5,6,7,8],"loss_mask":[1,1,0,1],"values":[0.1,0.2,9,0.3],"rewards":[0,0,0,0],"advantages":[0.21956821,0.19384472,0,0.17200656],"returns":[0.4782969,0.531441,0,0.59049]}
{"trajectory_id":"t","group_id":"g","inv_iter":1,"response_ids":[5,6,7],"loss_mask":[0,1,1],"values":[9,0.4,0.5],"rewards":[0,0,0],"advantages":[0,0.15556467,0.1466176],"returns":[0,0.6561,0.729]}
{"trajectory_id":"t","group_id":"g","inv_iter":0,"response_ids":[5,6,7,8],"loss_mask":[1,1,1,0],"values":[0.6,0.7,0.8,9],"rewards":[0,0,1,0],"advantages":[0.14807998,0.16400002,0.19999999,0],"returns":[0.81,0.9,1,0],"status":"finished"}
`
	code, stdout, stderr := command(t, golden, "advantage", "--gamma", "0.9", "--lambda", "0.8")
	if code != 0 || stdout != want || stderr != "" {
		t.Fatalf("exit %d, stderr %q, output:\n%s", code, stderr, stdout)
	}
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out.safetensors")
	if err := os.WriteFile(in, []byte(golden), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := command(t, "", "advantage", in, "-o", out, "--gamma", "0.9", "--lambda", "0.8"); code != 0 || stderr != "infinirl: wrote 3 rows of 1 trajectories to "+out+"\n" {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	if code, stdout, stderr := command(t, "\ufeff"+golden, "advantage", "--gamma", "0.9", "--lambda", "0.8"); code != 0 || stdout != want {
		t.Errorf("with a byte order mark: exit %d, %s, output:\n%s", code, stderr, stdout)
	}
	if code, stdout, stderr := command(t, "", "batch", "convert", out, "--format", "jsonl"); code != 0 || stdout != want {
		t.Errorf("through safetensors: exit %d, %s, output:\n%s", code, stderr, stdout)
	}
	// Computed again on the result, from standard input, by another method and back.
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	code, again, stderr := command(t, string(data), "advantage", "--gamma", "0.5")
	if code != 0 {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	if code, stdout, stderr := command(t, again, "advantage", "--format", "jsonl", "--gamma", "0.9", "--lambda", "0.8"); code != 0 || stdout != want {
		t.Errorf("computed again: exit %d, %s, output:\n%s", code, stderr, stdout)
	}
}

// manyLines makes sorted JSON Lines of some hundred trajectories of all kinds,
// more than a part of the stream, the lines of one trajectory next to one another.
func manyLines(rng *rand.Rand, trajectories int) []string {
	var lines []string
	for j := range trajectories {
		segments := 1 + rng.IntN(5)
		status := []string{"finished", "finished", "truncated", "failed", "aborted"}[rng.IntN(5)]
		for k := range segments {
			n := 1 + rng.IntN(300)
			var ids, mask, values []string
			for t := range n {
				ids, mask, values = append(ids, fmt.Sprint(t)), append(mask, fmt.Sprint(rng.IntN(2) * (j % 7))[:1]), append(values, fmt.Sprintf("%.3f", rng.NormFloat64()))
				if mask[t] != "0" {
					mask[t] = "1"
				}
			}
			score := ""
			if k == 0 {
				score = fmt.Sprintf(`,"score":%d`, rng.IntN(2))
			}
			lines = append(lines, fmt.Sprintf(`{"trajectory_id":"t%d","group_id":"g%d","inv_iter":%d,"prompt_ids":[1,2,3],"response_ids":[%s],"loss_mask":[%s],"values":[%s],"status":%q,"bootstrap_value":0.5%s}`,
				j, j/8, (segments-1-k+j)%segments, strings.Join(ids, ","), strings.Join(mask, ","), strings.Join(values, ","), status, score))
		}
	}
	return lines
}

// TestStreamEqualsWhole: sorted input, which is streamed, gives the rows that
// shuffled input gives, which is not; each in the order of the input.
func TestStreamEqualsWhole(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	sorted := manyLines(rng, 600)
	shuffled := slices.Clone(sorted)
	rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	dir := t.TempDir()
	for _, estimator := range []string{"gae", "turn-gae", "grpo"} {
		of := map[string]string{} // output line by the start of the input line
		var counted string
		for name, lines := range map[string][]string{"sorted": sorted, "shuffled": shuffled} {
			in := filepath.Join(dir, name+".jsonl")
			if err := os.WriteFile(in, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			code, fromFile, stderr := command(t, "", "advantage", in, "--estimator", estimator)
			if code != 0 {
				t.Fatalf("%s, %s: exit %d, %s", estimator, name, code, stderr)
			}
			if counted == "" {
				counted = stderr[:strings.Index(stderr, "(")]
			} else if !strings.HasPrefix(stderr, counted) {
				t.Errorf("left out: %q and %q", counted, stderr)
			}
			_, fromStdin, _ := command(t, strings.Join(lines, "\n"), "advantage", "--estimator", estimator)
			if fromStdin != fromFile {
				t.Errorf("%s, %s: standard input gives another output", estimator, name)
			}
			for _, format := range []string{"safetensors", "packed"} { // out and in again
				_, columns, _ := command(t, strings.Join(lines, "\n"), "advantage", "--estimator", estimator, "--format", format)
				code, back, stderr := command(t, columns, "advantage", "--estimator", estimator, "--format", "jsonl")
				if code != 0 || withoutMasked(back) != withoutMasked(fromFile) {
					t.Errorf("%s, %s: %s gives another output: exit %d, %s", estimator, name, format, code, stderr)
				}
			}
			outputs := strings.Split(strings.TrimSuffix(fromFile, "\n"), "\n")
			k := 0
			for _, line := range lines { // input order, some left out
				if start := line[:strings.Index(line, `,"loss_mask"`)]; k < len(outputs) && strings.HasPrefix(outputs[k], start) {
					if seen, ok := of[start]; ok && seen != outputs[k] {
						t.Fatalf("%s: row %s\nstreamed or not: %s\n%s", estimator, start, seen, outputs[k])
					}
					of[start] = outputs[k]
					k++
				}
			}
			if k != len(outputs) || k < len(lines)/3 || k == len(lines) {
				t.Fatalf("%s, %s: %d of %d rows came out in input order", estimator, name, k, len(outputs))
			}
		}
	}
}

// withoutMasked drops the values, of which the packed form keeps less.
func withoutMasked(lines string) string {
	var out strings.Builder
	for line := range strings.Lines(lines) {
		before, after, _ := strings.Cut(line, `"values":[`)
		_, after, _ = strings.Cut(after, `]`)
		out.WriteString(before + after)
	}
	return out.String()
}

func TestAdvantageTellsWhatIsLost(t *testing.T) {
	t.Parallel()
	input := `{"trajectory_id":"f","inv_iter":0,"response_ids":[1],"loss_mask":[1],"values":[0],"rewards":[0],"status":"failed"}
{"trajectory_id":"n","inv_iter":0,"response_ids":[1],"loss_mask":[0],"values":[0],"rewards":[0]}
{"trajectory_id":"t","inv_iter":0,"response_ids":[1,2],"loss_mask":[0,1],"values":[0,0],"rewards":[2,1]}
{"trajectory_id":"a","inv_iter":1,"response_ids":[1],"loss_mask":[1],"values":[0],"rewards":[0],"status":"aborted"}
{"trajectory_id":"a","inv_iter":0,"response_ids":[1],"loss_mask":[1],"values":[0],"rewards":[0],"status":"aborted"}
`
	code, stdout, stderr := command(t, input, "advantage")
	want := `infinirl: warning: trajectory "t": reward 2 before the first trainable token follows no action: dropped
infinirl: left out 4 rows of 3 trajectories (1 failed, 1 without a trainable token, 1 aborted)
`
	if code != 0 || strings.Count(stdout, "\n") != 1 || stderr != want {
		t.Errorf("exit %d, stderr %q, output %q", code, stderr, stdout)
	}
	code, stdout, stderr = command(t, strings.SplitAfter(input, "\n")[0], "advantage")
	if code != 0 || stdout != "" || stderr != "infinirl: left out 1 rows of 1 trajectories (1 failed)\n" {
		t.Errorf("all left out: exit %d, stderr %q, output %q", code, stderr, stdout)
	}
	code, stdout, stderr = command(t, strings.SplitAfter(input, "\n")[0], "advantage", "--format", "safetensors")
	if code != 2 || stdout != "" || !strings.Contains(stderr, "nothing is left: left out 1 rows") {
		t.Errorf("all left out of a file: exit %d, stderr %q, output %q", code, stderr, stdout)
	}
	code, stdout, stderr = command(t, `{"trajectory_id":"t","inv_iter":0,"response_ids":[1,2],"loss_mask":[1,1],"score":1}`, "advantage", "--lambda", "1")
	if want := `"advantages":[1,1],"returns":[1,1]`; code != 0 || !strings.Contains(stdout, want) || stderr != "infinirl: no values given: 0 stands for each, and λ is 1 as --lambda says\n" {
		t.Errorf("no values: exit %d, stderr %q, output %q, want %s", code, stderr, stdout, want)
	}
}

func TestBatchBadInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	line := func(more string) string {
		return `{"trajectory_id":"t","inv_iter":0,"response_ids":[1,2],"loss_mask":[1,0],"values":[1,2],"score":1` + more + "}\n"
	}
	_, columns, _ := command(t, golden, "batch", "convert", "--format", "safetensors")
	for name, c := range map[string]struct {
		input string
		args  []string
		want  string
	}{
		"empty":             {"", nil, "stdin: no rows"},
		"blank":             {"\n\n", nil, "stdin: no rows"},
		"cut off":           {line("")[:60], nil, "stdin:1: the line ends within the string"},
		"second line":       {line("") + "{", nil, "stdin:2: the line ends: want"},
		"unknown field":     {line(`,"reward":1`), nil, `stdin:1: unknown field "reward"`},
		"wrong type":        {line(`,"status":1`), nil, `stdin:1: status: found "1}" at byte`},
		"lengths":           {line(`,"rewards":[1]`), nil, `stdin:1: trajectory "t": rewards has 1 entries for 2 response_ids`},
		"duplicate":         {line("") + line(""), nil, `stdin:2: trajectory "t": inv_iter 0 comes twice`},
		"missing":           {strings.Replace(line(""), `"inv_iter":0`, `"inv_iter":1`, 1), nil, `stdin:1: trajectory "t": inv_iter 1 on one of 1 rows`},
		"scores differ":     {line("") + strings.NewReplacer(`"inv_iter":0`, `"inv_iter":1`, `"score":1`, `"score":2`).Replace(line("")), nil, `stdin:1: trajectory "t": score 1 on inv_iter 0, 2 on`},
		"no outcome":        {strings.Replace(line(""), `,"score":1`, "", 1), nil, `stdin: trajectory "t": neither rewards nor a score`},
		"NaN":               {strings.Replace(line(""), `[1,2],"score"`, `[NaN,2],"score"`, 1), nil, `stdin: trajectory "t", inv_iter 0, response token 0: values: NaN`},
		"gamma":             {line(""), []string{"--gamma", "2"}, "gamma: 2: want a number from 0 to 1"},
		"estimator":         {line(""), []string{"--estimator", "best"}, `estimator: "best": want one of`},
		"name of input":     {"", []string{"in.txt"}, "in.txt: want a name that ends in .jsonl or .safetensors"},
		"no such file":      {"", []string{filepath.Join(dir, "none.jsonl")}, "none.jsonl: no such file"},
		"directory":         {"", []string{mkdir(t, dir, "d.jsonl")}, "d.jsonl is a directory"},
		"truncated columns": {columns[:len(columns)-1], nil, "stdin: safetensors: "},
		"truncated header":  {columns[:100], nil, "stdin: safetensors: "},
		"no such folder":    {line(""), []string{"-o", filepath.Join(dir, "none", "x.jsonl")}, "x.jsonl: no such file"},
		"output a folder":   {line(""), []string{"-o", dir}, "is a directory"},
		"output below file": {line(""), []string{"-o", "batch_test.go/x.jsonl"}, "x.jsonl: not a directory"},
		"output unnamed":    {line(""), []string{"-o", ""}, "the name of the file is empty"},
		"output unknown":    {line(""), []string{"-o", filepath.Join(dir, "x.txt")}, "x.txt: want a name that ends in .jsonl or .safetensors"},
		"output disagrees":  {line(""), []string{"-o", filepath.Join(dir, "x.jsonl"), "--format", "packed"}, "its name says jsonl, --format says packed"},
		"long field":        {line(`,"` + strings.Repeat("x", 1<<20) + `":1`), nil, `stdin:1: unknown field "` + strings.Repeat("x", 79) + "…"},
		"long status":       {line(`,"status":"` + strings.Repeat("x", 1<<20) + `"`), nil, `stdin:1: status: status "` + strings.Repeat("x", 80) + `…": want`},
		"columns as lines":  {"x" + columns, nil, "stdin:1: found"},
	} {
		for _, extension := range []string{"jsonl", "safetensors"} {
			out := filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".out."+extension)
			code, stdout, stderr := command(t, c.input, append([]string{"advantage", "-o", out}, c.args...)...)
			if code != 2 || !strings.Contains(stderr, c.want) || strings.Count(strings.SplitN(stderr, "infinirl: ", 2)[1], "\n") != 1 || stdout != "" {
				t.Errorf("%s: exit %d, %q: want 2 and one line with %q", name, code, stderr, c.want)
			}
		}
		if len(c.args) == 0 && !slices.Contains([]string{"no values", "no outcome"}, name) {
			if code, _, stderr := command(t, c.input, "batch", "check", "-"); code != 2 {
				t.Errorf("check: %s: exit %d, %q", name, code, stderr)
			}
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("errors left files behind: %v, %v", left, err)
	}
}

func mkdir(t *testing.T, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestNegativeTokenIDs are told by check, in either form.
func TestNegativeTokenIDs(t *testing.T) {
	t.Parallel()
	for place, input := range map[string]string{
		"prompt token 1":   strings.Replace(golden, `"prompt_ids":[1,2]`, `"prompt_ids":[1,-2]`, 1),
		"response token 2": strings.Replace(golden, `"response_ids":[5,6,7,8]`, `"response_ids":[5,6,-2,8]`, 1),
	} {
		for _, format := range []string{"jsonl", "safetensors"} {
			_, converted, _ := command(t, input, "batch", "convert", "--format", format)
			code, _, stderr := command(t, converted, "batch", "check", "-")
			if want := `-: trajectory "t", inv_iter 2, ` + place + ": token id -2: want 0 or more\n"; code != 2 || !strings.HasSuffix(stderr, want) {
				t.Errorf("%s: exit %d, %q, want %q", format, code, stderr, want)
			}
		}
	}
}

func TestBatchShow(t *testing.T) {
	t.Parallel()
	_, input, _ := command(t, golden, "advantage", "--gamma", "0.9", "--lambda", "0.8")
	code, stdout, stderr := command(t, input+strings.Replace(strings.SplitAfter(input, "\n")[2], `"t"`, `"u"`, 1), "batch", "show", "--trajectories", "1")
	if code, _, stderr := command(t, input, "batch", "show", "--trajectories=-1"); code != 2 || !strings.Contains(stderr, "--trajectories: -1, want at least 0") {
		t.Errorf("-1 trajectories: exit %d, %s", code, stderr)
	}
	want := `rows          4 (3 tokens shortest, 4 median, 6 longest)
trajectories  2 in 1 groups, up to 3 segments
status        2 finished
tokens        17: 2 prompt, 11 trainable (64.7%)
columns       values, rewards, advantages, returns

trajectory "t"  group "g"  finished
  inv_iter 2  prompt 2  response +2 -1 +1  value 0.1 to 0.3  reward 0
      advantage 0.172 to 0.2196  return 0.4783 to 0.5905
  inv_iter 1  prompt 0  response -1 +2  value 0.4 to 0.5  reward 0
      advantage 0.1466 to 0.1556  return 0.6561 to 0.729
  inv_iter 0  prompt 0  response +3 -1  value 0.6 to 0.8  reward 0 to 1
      advantage 0.1481 to 0.2  return 0.81 to 1

and 1 more trajectories
`
	if code != 0 || stdout != want {
		t.Errorf("exit %d, %s, output:\n%s", code, stderr, stdout)
	}
}

// TestBatchExamples runs the examples of the help texts: pipelines of infinirl that
// begin with an echo.
func TestBatchExamples(t *testing.T) {
	t.Parallel()
	for _, help := range []string{advantageCommand{}.Help(), batchShowCommand{}.Help(), batchConvertCommand{}.Help(), batchCheckCommand{}.Help()} {
		_, example, _ := strings.Cut(help, "Example:\n  ")
		steps := strings.Split(example, " | ")
		data := strings.Trim(strings.TrimPrefix(steps[0], "echo "), "'") + "\n"
		for _, step := range steps[1:] {
			code, stdout, stderr := command(t, data, strings.Fields(step)[1:]...)
			if code != 0 || stdout == "" {
				t.Errorf("%s: exit %d, %s", step, code, stderr)
			}
			data = stdout
		}
	}
}

// TestLambdaWithoutValues: where 0 stands for each value, λ below 1 would leave nothing
// of the reward to an early token, so it is 1 unless somebody says otherwise.
func TestLambdaWithoutValues(t *testing.T) {
	t.Parallel()
	const none = "infinirl: no values given: 0 stands for each, and λ is "
	with := `{"trajectory_id":"t","inv_iter":0,"response_ids":[1,2,3],"loss_mask":[1,1,1],"score":1,"values":[0,0,0]}`
	without := strings.Replace(with, `,"values":[0,0,0]`, "", 1)
	unsorted := strings.Replace(without, `"inv_iter":0`, `"inv_iter":1`, 1) + "\n" + strings.Replace(without, `"t"`, `"u"`, 1) + "\n" + without
	for _, c := range []struct {
		name, input, flags string
		want               string // in the output
		told               []string
	}{
		{"values", with, "", `"advantages":[0.9025,0.95,1],"returns":[1,1,1]`, nil},
		{"no values", without, "", `"advantages":[1,1,1],"returns":[1,1,1]`, []string{none + "1, not 0.95: a token n tokens before the reward gets λ^n of it"}},
		{"whole batch at once", unsorted, "", `"advantages":[1,1,1],"returns":[1,1,1]`, []string{none + "1, not 0.95: "}},
		{"turn-gae", without, "--estimator turn-gae", `"advantages":[1,1,1]`, []string{none + "1, not 0.95: "}},
		{"no values needed", without, "--estimator reinforce++ --gamma 0.5", "", nil},
		{"λ 1", without, "--lambda 1", `"advantages":[1,1,1]`, []string{none + "1 as --lambda says"}},
		{"λ 0.5", without, "--lambda 0.5", `"advantages":[0.25,0.5,1],"returns":[1,1,1]`, []string{none + "0.5 as --lambda says", "infinirl: warning: --lambda 0.5 without values: a token n tokens before the reward gets 0.5^n of it: leave the flag out for λ = 1"}},
		{"critic's λ", without, "--critic-lambda 0.5", `"advantages":[1,1,1],"returns":[0.25,0.5,1]`, []string{none + "1, not 0.95: ", "infinirl: warning: --critic-lambda 0.5 without values: the return "}},
		{"α", without, "--lambda-alpha 0.5", `"advantages":[0.11111111,0.33333334,1]`, []string{none + "as --lambda-alpha 0.5 says", "infinirl: warning: --lambda-alpha 0.5 without values: "}},
		{"all with values", with, "--lambda 0.5 --critic-lambda 0.5", `"advantages":[0.25,0.5,1],"returns":[0.25,0.5,1]`, nil},
	} {
		code, out, stderr := command(t, c.input+"\n", append([]string{"advantage"}, strings.Fields(c.flags)...)...)
		lines := strings.SplitAfter(stderr, "\n")
		if code != 0 || !strings.Contains(out, c.want) || len(lines)-1 != len(c.told) {
			t.Errorf("%s: exit %d, output %s, want %s; standard error %q, want %d lines", c.name, code, out, c.want, stderr, len(c.told))
			continue
		}
		for k, want := range c.told {
			if !strings.HasPrefix(lines[k], want) {
				t.Errorf("%s: %q, want %q", c.name, lines[k], want)
			}
		}
	}
}

func TestBatchShowJSON(t *testing.T) {
	t.Parallel()
	code, out, stderr := command(t, golden+`{"trajectory_id":"u<","inv_iter":0,"response_ids":[5],"loss_mask":[1],"values":[NaN],"rewards":[1],"status":"truncated","success":false,"score":-0.5}`, "batch", "show", "--json")
	want := `{"rows":4,"shortest_row_tokens":1,"median_row_tokens":4,"longest_row_tokens":6,"trajectories":2,"groups":2,"most_segments":3,"status":{"finished":1,"truncated":1},"tokens":14,"prompt_tokens":2,"trainable_tokens":9,"columns":["values","rewards"],"described":[` +
		`{"trajectory_id":"t","group_id":"g","status":"finished","segments":[{"inv_iter":2,"prompt_tokens":2,"response_runs":[2,-1,1],"columns":[{"column":"value","min":0.1,"max":0.3},{"column":"reward","min":0,"max":0}]},` +
		`{"inv_iter":1,"prompt_tokens":0,"response_runs":[-1,2],"columns":[{"column":"value","min":0.4,"max":0.5},{"column":"reward","min":0,"max":0}]},` +
		`{"inv_iter":0,"prompt_tokens":0,"response_runs":[3,-1],"columns":[{"column":"value","min":0.6,"max":0.8},{"column":"reward","min":0,"max":1}]}]},` +
		`{"trajectory_id":"u<","status":"truncated","score":-0.5,"success":false,"segments":[{"inv_iter":0,"prompt_tokens":0,"response_runs":[1],"columns":[{"column":"value","min":"NaN","max":"NaN"},{"column":"reward","min":1,"max":1}]}]}]}` + "\n"
	if code != 0 || out != want || stderr != "" {
		t.Errorf("exit %d, %s, output\n%s\nwant\n%s", code, stderr, out, want)
	}
	if code, out, _ := command(t, golden, "batch", "show", "--json", "--trajectories", "0"); code != 0 || !strings.HasSuffix(out, `"described":[]}`+"\n") {
		t.Errorf("no trajectories: exit %d, %s", code, out)
	}
}

// TestBatchShowFits: no line is longer than 80 columns, whatever the columns of the batch.
func TestBatchShowFits(t *testing.T) {
	t.Parallel()
	var rows strings.Builder
	for k := range 3 {
		mask := strings.TrimSuffix(strings.Repeat("1,0,0,1,1,", 30), ",")
		zeros := strings.TrimSuffix(strings.Repeat("-0.123456,1234567.5,-0.25,1e-7,3,", 30), ",")
		fmt.Fprintf(&rows, `{"trajectory_id":"trajectory-%d","group_id":"group","inv_iter":0,"response_ids":[%s],"loss_mask":[%s],"values":[%[4]s],"rewards":[%[4]s],"rollout_log_probs":[%[4]s],"advantages":[%[4]s],"returns":[%[4]s],"status":%[5]q,"success":true,"error":%[6]q}`+"\n",
			k, mask, mask, zeros, []string{"finished", "truncated", "context_overflow"}[k], strings.Repeat("x", 200))
	}
	code, out, stderr := command(t, rows.String(), "batch", "show")
	if code != 0 {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	for line := range strings.Lines(out) {
		if n := len([]rune(line)) - 1; n > 80 && !strings.Contains(line, "error") { // an excerpt of it stands alone
			t.Errorf("%d columns: %s", n, line)
		}
	}
}
