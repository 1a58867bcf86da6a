package skills

import (
	"context"
	"path"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/catalog/search"
)

// leastWords is the least score of a skill that is found. It leaves out skills that share only vague words with a request. It was chosen with the
// requests of testdata/find/natural.txt and requests.txt.
const leastWords = 0.35

// Search returns the skills of a user that fit a request in words, the best first and at most limit, and the number of the user's skills. Skills with a
// problem are left out and not counted. A request that no skill fits finds none.
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
	return Rank(usable, request, limit), len(usable), nil
}

// Rank returns the skills of a list that fit a request in words, the best first and at most limit.
func Rank(list []Skill, request string, limit int) (found []Skill) {
	docs := make([]search.Doc, len(list))
	for i, k := range list {
		docs[i] = search.Doc{
			Key: k.Path, Name: path.Base(k.Name), Title: k.Title, Server: "", Description: k.Description,
			Params: strings.Join(append(k.Tags, k.Exports...), " "), Context: strings.ReplaceAll(path.Dir(k.Name), "/", " "),
		}
	}
	index := search.NewIndex([]*search.Segment{search.NewSegment(docs)})
	for _, r := range index.Search(oneStep(request), limit) {
		if r.Words >= leastWords {
			found = append(found, list[r.Doc])
		}
	}
	return found
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
