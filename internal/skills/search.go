package skills

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/catalog/search"
	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/versions"
)

// leastWords is the least score of a skill that is found. It leaves out skills that share only vague words with a request. It was chosen with the
// requests of testdata/find/natural.txt and requests.txt.
const leastWords = 0.35

// leastRuns is the number of runs from which on the failures of a skill count.
const leastRuns = 3

// Bounds of what a search takes from other users, however much they share.
const (
	maxOthers   = 200 // maximum number of skills of other users that are ranked; the owners take turns
	othersShare = 3   // reciprocal of the share of results that other users can take from fitting own skills; at least one result
)

// Search returns the skills of a user that fit a request in words, the best first and at most limit, and the number of the user's skills. After the user's own
// come those of others that programs of the user may use. Skills with a problem are left out and not counted. A request that no skill fits finds none.
func (s *Store) Search(ctx context.Context, user, request string, limit int) (found []Skill, all int, err error) {
	list, err := s.List(user)
	if err != nil {
		return nil, 0, err
	}
	usable := list[:0]
	for _, k := range list {
		if k.Problem == "" {
			usable = append(usable, k)
		}
	}
	if ctx.Err() != nil {
		return nil, 0, context.Cause(ctx)
	}
	others, err := s.usable(ctx, user)
	if err != nil {
		return nil, 0, err
	}
	uses, err := s.Uses(ctx, user)
	if err != nil {
		return nil, 0, err
	}
	found = Rank(usable, uses, request, limit)
	own := min(len(found), limit-min(max(1, limit/othersShare), limit-1))
	theirs := Rank(others, uses, request, limit-own)
	found = append(found[:min(len(found), limit-len(theirs))], theirs...)
	return found, len(usable) + len(others), nil
}

// usable describes the skills of other users that programs of a user may use, at most maxOthers.
func (s *Store) usable(ctx context.Context, user string) (all []Skill, err error) {
	err = s.eachUsed(ctx, user, func(o *Other) error {
		c, err := s.used(ctx, o)
		if err == nil {
			if k := o.Describe(c); k.Problem == "" {
				all = append(all, k)
			}
		}
		return err
	})
	return all, err
}

// eachUsed calls visit for the skills of other users that programs of a user may use, at most maxOthers. The owners take turns. A skill that is gone is
// passed over.
func (s *Store) eachUsed(ctx context.Context, user string, visit func(o *Other) error) error {
	others, err := s.Others(ctx, user, "")
	if err != nil {
		return err
	}
	turns := map[string]int{}
	turn := make([]int, len(others))
	order := []int{}
	for i, o := range others {
		if o.use() > 0 {
			turn[i] = turns[o.Owner]
			turns[o.Owner]++
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return turn[a] - turn[b] })
	for _, i := range order[:min(len(order), maxOthers)] {
		var gone *files.Error
		if err := visit(&others[i]); err != nil && !errors.As(err, &gone) {
			return err
		}
	}
	return nil
}

// Rank returns the skills of a list that fit a request in words, the best first and at most limit. uses are the user's uses of the skills, by their names in the
// history: the requests of tasks in which a skill worked are searched as well as its own words, and skills most of whose runs failed come last.
func Rank(list []Skill, uses map[string]versions.Uses, request string, limit int) (found []Skill) {
	worked := func(k *Skill) int { return uses[k.key()].Runs - uses[k.key()].Failed }
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b Skill) int { return worked(&b) - worked(&a) }) // the index puts the first of two equal ones first
	docs := make([]search.Doc, len(list))
	for i, k := range list {
		docs[i] = search.Doc{
			Key: k.Path, Name: path.Base(k.Name), Title: k.Title, Server: "", Description: k.Description,
			Params: strings.Join(append(k.Tags, k.Exports...), " "), Context: strings.ReplaceAll(path.Dir(k.Name), "/", " "),
			Requests: strings.Join(uses[k.key()].Requests, "\n"),
		}
	}
	index := search.NewIndex([]*search.Segment{search.NewSegment(docs)})
	var failing []Skill
	for _, r := range index.Search(oneStep(request), limit) {
		switch u := uses[list[r.Doc].key()]; {
		case r.Words < leastWords:
		case u.Runs >= leastRuns && 2*u.Failed > u.Runs:
			failing = append(failing, list[r.Doc])
		default:
			found = append(found, list[r.Doc])
		}
	}
	return append(found, failing...)
}

// oneStep returns the words of a request without what divides it into steps. A search for tools looks for some for each step; a skill is for the
// request as a whole.
func oneStep(request string) string {
	words := strings.Fields(request)
	for i, w := range words {
		words[i] = strings.TrimRight(w, ".,;:!?)")
	}
	return strings.Join(slices.DeleteFunc(words, search.Joins), " ")
}
