package search

import "slices"

// choose takes candidates one by one, each time the one that is worth most for what is still asked for. Tools that the
// query names come first.
func (ix *Index) choose(s *scratch, p *pool, words []word, servers [][]int32, named []int32, limit int) []Result {
	var out []Result
	for _, d := range named {
		if len(out) < limit {
			out = append(out, ix.result(d))
		}
		if at := s.member[d]; at > 0 {
			(*p)[at-1].taken = true
		}
	}
	left := make([]float32, len(words)) // of each word's worth
	best := make([]float32, len(words)) // that a word has for any candidate
	for i := range left {
		left[i] = 1
	}
	j := judge{ix: ix, words: words, servers: servers, left: left, perClause: make([]float32, len(servers))}
	favour := j.favour(p)
	for _, c := range *p {
		for _, v := range c.values {
			best[v.word] = max(best[v.word], v.v)
		}
	}
	for len(out) < limit {
		next, most, clause := -1, float32(0), 0
		for i := range *p {
			c := &(*p)[i]
			if c.taken {
				continue
			}
			score, of := j.worth(c)
			score *= favour[ix.server[c.doc]]
			if score > most || score == most && next >= 0 && ix.keys[c.doc] < ix.keys[(*p)[next].doc] {
				next, most, clause = i, score, of
			}
		}
		if next < 0 {
			break
		}
		c := &(*p)[next]
		c.taken = true
		out = append(out, ix.result(c.doc))
		for _, v := range c.values {
			left[v.word] *= 1 - covered*v.v/best[v.word]
		}
		for i, w := range words {
			if w.clause == clause {
				left[i] *= 1 - served
			}
		}
	}
	return out
}

func (ix *Index) result(doc int32) Result {
	segment := ix.server[doc]
	return Result{Segment: int(segment), Doc: int(doc - ix.base[segment])}
}

// judge says what a candidate is worth while words lose theirs.
type judge struct {
	ix        *Index
	words     []word
	servers   [][]int32
	left      []float32
	perClause []float32
}

// worth is what a candidate is worth for the clause that it suits best, with a part of what it is worth for the rest, and
// which clause that is.
func (j *judge) worth(c *candidate) (worth float32, clause int) {
	clear(j.perClause)
	var all float32
	for _, v := range c.values {
		w := v.v * j.left[v.word]
		j.perClause[j.words[v.word].clause] += w
		all += w
	}
	for i, own := range j.perClause {
		if own == 0 {
			continue
		}
		score := own + wholeWeight*(all-own)
		if slices.Contains(j.servers[i], j.ix.server[c.doc]) {
			score *= namedBoost
		}
		if score > worth {
			worth, clause = score, i
		}
	}
	return worth, clause
}

// favour is a factor for the tools of each server, by the worth of its best tool.
func (j *judge) favour(p *pool) map[int32]float32 {
	best := map[int32]float32{}
	var most float32
	for i := range *p {
		c := &(*p)[i]
		worth, _ := j.worth(c)
		best[j.ix.server[c.doc]] = max(best[j.ix.server[c.doc]], worth)
		most = max(most, worth)
	}
	for server, worth := range best {
		best[server] = 1 + serverWeight*worth/most
	}
	return best
}
