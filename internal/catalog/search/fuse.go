package search

// How two rankings of a step become one: by the reciprocals of ranks, as Cormack, Clarke and Büttcher have them (SIGIR 2009). Their constant
// is for lists of thousands; with ours the tenth tool of a ranking is worth half as much as the first.
const (
	fusedRanks   = 50 // tools of each ranking
	rankConstant = 9
	// minOfBest is the share of the best tool's worth that a tool must have for a rank: behind a tool that has all words of a step come some that
	// share one by accident.
	minOfBest = 0.25
)

// alike is what Alike says of steps; nil if it is not known.
func (k Known) alike(all []step) [][]float32 {
	if k.Alike == nil || len(all) == 0 {
		return nil
	}
	texts := make([]string, len(all))
	for i, s := range all {
		texts[i] = s.text
	}
	if alike := k.Alike(texts); len(alike) == len(all) {
		return alike
	}
	return nil
}

// fuse makes the tools' worth that of two rankings: by what they were worth, and by how alike they are to the step.
func (c *clause) fuse(alike []float32) {
	fused := make([]float32, len(c.worth))
	c.most = 0
	for _, ranking := range [][]float32{c.worth, alike} {
		top := best(ranking, fusedRanks)
		for rank, d := range top {
			if ranking[d] < minOfBest*ranking[top[0]] {
				break
			}
			fused[d] += 1 / float32(rankConstant+1+rank)
			c.most = max(c.most, fused[d])
		}
	}
	c.worth = fused
}
