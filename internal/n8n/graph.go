package n8n

// graph contains the connections between the nodes of a workflow, which are identified by their index. It leaves out notes and connections of unknown nodes.
type graph struct {
	next     [][]int // successors by connections of the type main
	into     []int   // number of connections of the type main that lead to each node
	data     []link  // the connections of the type main
	from, to []int   // indexes of the nodes at which each connection in data begins and ends

	reaches [][]int // edges of next, and edges from a node to the nodes that serve it, such as the model of an agent
	serves  []bool
}

const mainType = "main"

func newGraph(nodes []object, all []link) *graph {
	at := map[string]int{}
	for i, n := range nodes {
		at[text(n, "name")] = i
	}
	n := len(nodes)
	g := &graph{next: make([][]int, n), into: make([]int, n), reaches: make([][]int, n), serves: make([]bool, n)}
	for _, l := range all {
		from, known := at[l.From]
		to, knownTo := at[l.To]
		switch {
		case !known || !knownTo:
		case l.Type != mainType:
			g.serves[from] = true
			g.reaches[to] = append(g.reaches[to], from)
		default:
			g.into[to]++
			g.next[from] = append(g.next[from], to)
			g.reaches[from] = append(g.reaches[from], to)
			g.data, g.from, g.to = append(g.data, l), append(g.from, from), append(g.to, to)
		}
	}
	return g
}

// reach marks nodes in seen: the nodes in from, and all nodes that can be reached from them. It returns the number of newly marked nodes.
func (g *graph) reach(seen []bool, from ...int) (marked int) {
	var queue []int
	mark := func(n int) {
		if !seen[n] {
			seen[n] = true
			marked++
			queue = append(queue, n)
		}
	}
	for _, n := range from {
		mark(n)
	}
	for len(queue) > 0 {
		n := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, to := range g.reaches[n] {
			mark(to)
		}
	}
	return marked
}

// components numbers the strongly connected components (Tarjan's algorithm, without recursion): nodes of a cycle have the same number. cyclic
// contains the numbers of components with a cycle. A node whose element of without is true is left out and has the number -1.
func components(next [][]int, without []bool) (number []int, cyclic map[int]bool) {
	n := len(next)
	if without == nil {
		without = make([]bool, n)
	}
	number, cyclic = make([]int, n), map[int]bool{}
	index, low := make([]int, n), make([]int, n)    // 0 means not seen yet
	open, loops := make([]bool, n), make([]bool, n) // loops: whether the node leads to itself
	for i := range number {
		number[i] = -1
	}
	type frame struct{ node, edge int }
	var stack []int
	count, found := 0, 0
	for root := range next {
		if index[root] != 0 || without[root] {
			continue
		}
		calls := []frame{{node: root}}
		for len(calls) > 0 {
			f := &calls[len(calls)-1]
			at := f.node
			if f.edge == 0 {
				count++
				index[at], low[at], open[at] = count, count, true
				stack = append(stack, at)
			}
			if f.edge < len(next[at]) {
				to := next[at][f.edge]
				f.edge++
				switch {
				case without[to]:
				case to == at:
					loops[at] = true
				case index[to] == 0:
					calls = append(calls, frame{node: to})
				case open[to]:
					low[at] = min(low[at], index[to])
				}
				continue
			}
			if low[at] == index[at] {
				for size := 1; ; size++ {
					top := stack[len(stack)-1]
					stack = stack[:len(stack)-1]
					open[top], number[top] = false, found
					if loops[top] || size > 1 {
						cyclic[found] = true
					}
					if top == at {
						break
					}
				}
				found++
			}
			calls = calls[:len(calls)-1]
			if len(calls) > 0 {
				up := calls[len(calls)-1].node
				low[up] = min(low[up], low[at])
			}
		}
	}
	return number, cyclic
}
