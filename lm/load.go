package lm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/infinirl/infinirl/bounded"
	"github.com/infinirl/infinirl/lm/kernel"
	"github.com/infinirl/infinirl/safetensors"
)

// indexFile lists the shards of weights in several files.
const indexFile = weightsFile + ".index.json"

// maxConfig bounds config.json, which has a few kilobytes, maxIndex the list of shards,
// which has a line a tensor.
const (
	maxConfig = 16 << 20
	maxIndex  = 64 << 20
)

// Load reads a model that Save wrote, or a Llama, Qwen2 or Qwen3 checkpoint of
// Hugging Face: model.safetensors, or the shards that model.safetensors.index.json
// lists, in F32, F16 or BF16. Of a model that Save wrote, every changed bit is an
// error. The shapes are compared with the configuration before the weights are read.
func Load(dir string) (*Model, error) {
	config, err := bounded.ReadFile(filepath.Join(dir, configFile), maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		if _, adapter := os.Stat(filepath.Join(dir, adapterConfigFile)); adapter == nil {
			err = fmt.Errorf("%s holds an adapter: want the model that it adapts, and the adapter on top of it", dir)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("lm: load: %w", err)
	}
	files, err := openWeights(dir)
	if err != nil {
		return nil, fmt.Errorf("lm: load: %w", err)
	}
	defer func() {
		for _, f := range files {
			f.Close() // it was only read
		}
	}()
	m, err := load(config, files)
	if err != nil {
		return nil, fmt.Errorf("lm: load %s: %w", dir, err)
	}
	return m, nil
}

// openWeights opens the weights of a folder, in one file or in shards. On an error
// none stays open.
func openWeights(dir string) (files []*safetensors.Opened, err error) {
	single, err := safetensors.Open(filepath.Join(dir, weightsFile))
	if err == nil {
		return []*safetensors.Opened{single}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	text, noIndex := bounded.ReadFile(filepath.Join(dir, indexFile), maxIndex)
	if errors.Is(noIndex, fs.ErrNotExist) {
		return nil, err
	}
	if noIndex != nil {
		return nil, noIndex
	}
	defer func() {
		if err != nil {
			for _, f := range files {
				f.Close()
			}
			files, err = nil, fmt.Errorf("%s: %w", filepath.Join(dir, indexFile), err)
		}
	}()
	var index struct {
		WeightMap map[string]string `json:"weight_map"` // tensor to file
	}
	if err := json.Unmarshal(text, &index); err != nil {
		return nil, err
	}
	if len(index.WeightMap) == 0 {
		return nil, errors.New("weight_map lists no tensors")
	}
	var names []string
	for _, name := range index.WeightMap {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	left := len(index.WeightMap)
	for _, name := range names {
		if !filepath.IsLocal(name) || filepath.Base(name) != name {
			return files, fmt.Errorf("shard %q: want the name of a file beside the index", name)
		}
		shard, err := safetensors.Open(filepath.Join(dir, name))
		if err != nil {
			return files, fmt.Errorf("shard %s: %w", name, err)
		}
		files = append(files, shard)
		for _, t := range shard.Tensors {
			if index.WeightMap[t.Name] != name {
				return files, fmt.Errorf("shard %s has tensor %q, which the index does not place there", name, t.Name)
			}
			left--
		}
	}
	if left > 0 { // a shard has no tensor twice
		for tensor, name := range index.WeightMap {
			for _, f := range files {
				if filepath.Base(f.Path) != name {
					continue
				}
				if _, err := f.Tensor(tensor); err != nil {
					return files, fmt.Errorf("shard %s lacks tensor %q, which the index places there", name, tensor)
				}
			}
		}
	}
	return files, nil
}

// load reads a model of a configuration and files of weights.
func load(config []byte, files []*safetensors.Opened) (*Model, error) {
	all := &safetensors.File{}
	for _, f := range files {
		// Save writes the same text into both files.
		if saved, ok := f.Metadata[metadataConfig]; ok && !bytes.Equal(bytes.TrimSpace(config), []byte(saved)) {
			return nil, fmt.Errorf("%s is not the one that %s was saved with: %w, or it was edited (delete it, and its text is that of the metadata %q of %s)",
				configFile, filepath.Base(f.Path), safetensors.ErrDamaged, metadataConfig, filepath.Base(f.Path))
		}
		all.Tensors = append(all.Tensors, f.Tensors...)
	}
	if _, err := match(config, all); err != nil {
		return nil, err
	}
	all.Tensors = all.Tensors[:0]
	for _, f := range files {
		if err := f.Attach(); err != nil {
			return nil, err
		}
		if err := verify(f.File); err != nil {
			return nil, err
		}
		all.Tensors = append(all.Tensors, f.Tensors...)
	}
	return fill(config, all)
}

// load is the inverse of export. All numbers must be finite.
func (l *layout) load(prefix string, tensors []safetensors.Tensor, flat []float32) error {
	if err := l.match(prefix, tensors); err != nil {
		return err
	}
	set, err := kernel.Default()
	if err != nil {
		return err
	}
	// Every core takes some rows of a tensor at a time, converts them where the
	// caches hold them, and puts them in their place.
	type piece struct{ tensor, from, to int } // rows
	const most = 1 << 17                      // elements
	var pieces []piece
	for i, t := range tensors {
		rows, cols := matrix(t.Shape)
		step := max(8, most/max(1, cols)/8*8)
		for from := 0; from < rows; from += step {
			pieces = append(pieces, piece{i, from, min(rows, from+step)})
		}
	}
	var next atomic.Int64
	var once sync.Once
	var failed error
	work := func() {
		var buffer []float32
		for i := int(next.Add(1)) - 1; i < len(pieces); i = int(next.Add(1)) - 1 {
			t := tensors[pieces[i].tensor]
			p := l.byName[strings.TrimPrefix(t.Name, prefix)]
			_, cols := matrix(t.Shape)
			from, n := pieces[i].from, pieces[i].to-pieces[i].from
			values := flat[p.offset+from*cols : p.offset+(from+n)*cols]
			if p.projection() {
				values = grow(&buffer, n*cols)
			}
			err := safetensors.CopyFloat32s(values, t, from*cols)
			if err == nil {
				err = finite(set, t.Name, values, from*cols)
			}
			if err != nil {
				once.Do(func() { failed = err })
				next.Store(int64(len(pieces)))
				return
			}
			if p.projection() {
				set.Transpose(n, cols, values, cols, flat[p.offset+from:p.offset+p.size()], p.out)
			}
		}
	}
	var group sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(pieces)) {
		group.Go(work)
	}
	group.Wait()
	return failed
}

// matrix is a shape as rows and columns; vectors are columns of one element.
func matrix(shape []int) (rows, cols int) {
	if len(shape) == 0 {
		return 1, 1
	}
	cols = 1
	for _, n := range shape[1:] {
		cols *= n
	}
	return shape[0], cols
}

// finite checks the elements of a tensor from a place on.
func finite(set *kernel.Set, name string, values []float32, from int) error {
	if sum := set.SumSquares(values); !math.IsNaN(sum) && !math.IsInf(sum, 0) {
		return nil // squares of float32 do not overflow a float64
	}
	for i, x := range values {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return fmt.Errorf("tensor %q: element %d is %g", name, from+i, x)
		}
	}
	return nil
}
