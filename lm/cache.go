package lm

import "slices"

// session is the cache of one conversation.
type session struct {
	id     string  // empty: of nobody, kept for the sake of its prefix
	tokens []int32 // whose keys and values are in kv
	kv     kvCache
	busy   bool // a sequence in flight owns tokens and kv
	used   int64
}

// cachePool lends caches to sequences. A prompt takes the cache of its session,
// else one without a session that shares the longest prefix, such as the system
// prompt of a trajectory that has ended. The least recently used idle caches are
// dropped when all together exceed the limit.
type cachePool struct {
	config    *Config
	limit     int64 // bytes
	bytes     int64 // of all caches
	busyBytes int64 // of those in flight
	clock     int64
	evicted   int64
	named     map[string]*session
	all       []*session
}

func newCachePool(config *Config, limit int64) *cachePool {
	return &cachePool{config: config, limit: limit, named: map[string]*session{}}
}

// bytesFor is the memory of a cache for n positions.
func (p *cachePool) bytesFor(n int) int64 {
	c := p.config
	return 2 * 4 * int64(c.NumHiddenLayers*c.NumKeyValueHeads*c.HeadDim) * int64(cacheStride(n))
}

// room tells whether a sequence of n positions fits beside those in flight.
func (p *cachePool) room(n int) bool { return p.busyBytes+p.bytesFor(n) <= p.limit }

// acquire lends a cache that holds the longest known prefix of prompt, short of
// its last token, whose output is yet to be computed.
func (p *cachePool) acquire(id string, prompt []int32) *session {
	s := p.named[id]
	if s == nil || s.busy {
		if s != nil {
			id = "" // the session has two requests in flight; the first keeps the name
		}
		if s = p.orphan(prompt); s == nil {
			s = &session{}
			p.all = append(p.all, s)
		}
		s.id = id
		if id != "" {
			p.named[id] = s
		}
	}
	s.tokens = s.tokens[:min(commonPrefix(s.tokens, prompt), len(prompt)-1)]
	s.busy = true
	p.busyBytes += s.kv.bytes()
	return s
}

// orphan finds the idle cache without a session that shares most with prompt.
func (p *cachePool) orphan(prompt []int32) (best *session) {
	longest := 0
	for _, s := range p.all {
		if s.busy || s.id != "" {
			continue
		}
		if n := commonPrefix(s.tokens, prompt); n > longest {
			best, longest = s, n
		}
	}
	return best
}

// grown accounts for a cache in flight that has grown from before bytes.
func (p *cachePool) grown(s *session, before int64) {
	p.bytes += s.kv.bytes() - before
	p.busyBytes += s.kv.bytes() - before
	p.evict()
}

// release takes a cache back.
func (p *cachePool) release(s *session) {
	p.clock++
	s.busy, s.used = false, p.clock
	p.busyBytes -= s.kv.bytes()
	p.evict()
}

// forget parts the cache of a session from its name; it is the first to go.
func (p *cachePool) forget(id string) {
	if s := p.named[id]; s != nil {
		delete(p.named, id)
		s.id, s.used = "", 0
	}
}

// invalidate empties all caches, none of which may be in flight.
func (p *cachePool) invalidate() {
	for _, s := range p.all {
		s.tokens = s.tokens[:0]
	}
}

func (p *cachePool) evict() {
	for p.bytes > p.limit {
		oldest := -1
		for i, s := range p.all {
			if !s.busy && (oldest < 0 || s.used < p.all[oldest].used) {
				oldest = i
			}
		}
		if oldest < 0 {
			return
		}
		s := p.all[oldest]
		if p.named[s.id] == s {
			delete(p.named, s.id)
		}
		p.bytes -= s.kv.bytes()
		p.all = slices.Delete(p.all, oldest, oldest+1)
		p.evicted++
	}
}

func commonPrefix(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

func (c *kvCache) bytes() int64 { return 4 * int64(len(c.k)+len(c.v)) }

// extend makes room for n positions and keeps the first length of them.
func (c *kvCache) extend(config *Config, n, length int) {
	if n <= c.stride {
		return
	}
	old := *c
	c.reserve(config, n)
	if old.stride == 0 {
		return
	}
	for layer := range config.NumHiddenLayers {
		for g := range config.NumKeyValueHeads {
			k, v := c.head(config, layer, g)
			oldK, oldV := old.head(config, layer, g)
			for i := range config.HeadDim {
				copy(k[i*c.stride:], oldK[i*old.stride:i*old.stride+length])
			}
			copy(v, oldV[:length*config.HeadDim])
		}
	}
}
