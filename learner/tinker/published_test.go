package tinker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"

	"github.com/infinirl/infinirl/learner/tinker/tinkertest"
	wire "github.com/infinirl/infinirl/tinker"
)

// The published client, which is not ours, gets from the test server what our client
// gets. It is run where INFINIRL_TINKER_PYTHON names a Python that has the package tinker
// (0.24.1).
func TestPublishedClient(t *testing.T) {
	python := os.Getenv("INFINIRL_TINKER_PYTHON")
	if python == "" {
		t.Skip("INFINIRL_TINKER_PYTHON names no Python with the package tinker")
	}
	reductions(t, func(t *testing.T, rowMean bool) {
		server := serve(t, tinkertest.Config{RowMean: rowMean})
		network := httptest.NewServer(server)
		defer network.Close()
		asked := struct {
			Rows       [][]int32   `json:"rows"`
			Advantages [][]float32 `json:"advantages"`
			Prompt     []int32     `json:"prompt"`
		}{[][]int32{{1, 2, 3, 4, 5}, {6, 7, 8}}, [][]float32{{1, -1, 0.5, 2}, {-0.5, 1}}, []int32{1, 2, 5}}
		input, err := json.Marshal(asked)
		if err != nil {
			t.Fatal(err)
		}
		command := exec.Command(python, "testdata/published_client.py", network.URL)
		command.Stdin = bytes.NewReader(input)
		var log bytes.Buffer
		command.Stderr = &log
		text, err := command.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, log.String())
		}
		var got struct {
			Models         []string           `json:"models"`
			Before         [][]float32        `json:"before"`
			After          [][]float32        `json:"after"`
			Metrics        map[string]float64 `json:"metrics"`
			Sampled        []wire.Sequence    `json:"sampled"`
			PromptLogProbs []*float32         `json:"prompt_logprobs"`
			Path           string             `json:"path"`
		}
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}

		// The same cycle by our client.
		ctx := context.Background()
		client := dial(t, server, wire.Config{})
		model, err := client.CreateModel(ctx, wire.ModelConfig{Base: "tiny", LoRA: wire.LoRA{Rank: 8, Seed: 1}, Once: true})
		if err != nil {
			t.Fatal(err)
		}
		data := func(backward bool) (data []wire.Datum) {
			for i, ids := range asked.Rows {
				weights := make([]float32, len(ids)-1)
				for k := range weights {
					weights[k] = 1
				}
				d := wire.Datum{Model: wire.Text(ids[:len(ids)-1]), Inputs: map[string]wire.Tensor{wire.TargetTokens: wire.Ints(ids[1:]), wire.Weights: wire.Floats(weights)}}
				if backward {
					d.Inputs[wire.LogProbs], d.Inputs[wire.Advantages] = wire.Floats(got.Before[i]), wire.Floats(asked.Advantages[i])
				}
				data = append(data, d)
			}
			return data
		}
		same := func(what string, theirs [][]float32) {
			t.Helper()
			out, err := model.Forward(ctx, wire.Loss{Data: data(false), Name: wire.CrossEntropy})
			if err != nil {
				t.Fatal(err)
			}
			for i, row := range out.Rows {
				if len(theirs[i]) != len(asked.Rows[i])-1 {
					t.Fatalf("%s: row %d: %d log-probs", what, i, len(theirs[i]))
				}
				for k, x := range row[wire.LogProbs].Data {
					near(t, what, float64(theirs[i][k]), float64(*x), 1e-6)
				}
			}
		}
		same("before", got.Before)
		if _, err := model.ForwardBackward(ctx, wire.Loss{Data: data(true), Name: wire.ImportanceSampling}); err != nil {
			t.Fatal(err)
		}
		stepped, err := model.Step(ctx, wire.Adam{LearningRate: 0.01, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8})
		if err != nil {
			t.Fatal(err)
		}
		near(t, "gradient norm", got.Metrics["test/grad_norm"], stepped.Metrics["test/grad_norm"], 1e-6)
		same("after", got.After)
		id, err := model.SaveForSampler(ctx)
		if err != nil {
			t.Fatal(err)
		}
		sampled, err := client.SamplingSession(id).Sample(ctx, asked.Prompt, 2, wire.SamplingParams{MaxTokens: 8, Seed: 7, Stop: []int32{3}, Temperature: 1, TopK: -1, TopP: 1}, true)
		if err != nil {
			t.Fatal(err)
		}
		a, _ := json.Marshal(sampled.Sequences)
		b, _ := json.Marshal(got.Sampled)
		if !bytes.Equal(a, b) || len(got.PromptLogProbs) != len(sampled.PromptLogProbs) || len(got.Models) != 1 || got.Path == "" {
			t.Errorf("sampled %s, path %q: want %s", b, got.Path, a)
		}
	})
}
