package fake

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"
	"unicode"
)

// EmbeddingRequest is what a server for embeddings was asked.
type EmbeddingRequest struct {
	N      int // the number of requests before it
	Host   string
	Path   string
	Header http.Header
	Model  string
	Input  []string
}

// EmbeddingReply is an error, or what the server does before it answers. The zero value answers.
type EmbeddingReply struct {
	Status     int // status of an error
	Message    string
	RetryAfter time.Duration
	Wait       <-chan struct{} // nothing is answered until it is closed or the request is cancelled
	Body       string          // body in place of vectors
}

// Embeddings is a fake of a server for embeddings. It speaks OpenAI's format, and refuses what OpenAI refuses. Its vectors are no model's:
// texts are alike that have words in common, or words that were said to mean the same. Nothing follows from them for how well a real model
// finds tools.
type Embeddings struct {
	URL string // address without a path

	http   *httptest.Server
	script func(EmbeddingRequest) EmbeddingReply
	same   map[string]string
	mu     sync.Mutex
	all    []EmbeddingRequest
}

// embeddingDims and maxEmbeddingInputs are those of the fake; OpenAI takes 2,048 texts in a request.
const (
	embeddingDims      = 256
	maxEmbeddingInputs = 2048
)

// ServeEmbeddings starts a server on a port of the loopback interface. same has words, and those that mean the same; script may be nil. Close
// ends it.
func ServeEmbeddings(same map[string]string, script func(EmbeddingRequest) EmbeddingReply) *Embeddings {
	s := &Embeddings{script: script, same: same}
	s.http = httptest.NewServer(http.HandlerFunc(s.handle))
	s.URL = s.http.URL
	return s
}

// Close ends the server, after the requests under way.
func (s *Embeddings) Close() { s.http.Close() }

// Client sends every request to the server, whatever host it is for.
func (s *Embeddings) Client() *http.Client {
	return &http.Client{Transport: rerouted{s.http.Listener.Addr().String(), s.http.Client().Transport}}
}

// Requests are the requests so far.
func (s *Embeddings) Requests() []EmbeddingRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]EmbeddingRequest(nil), s.all...)
}

// Texts are the texts of all requests.
func (s *Embeddings) Texts() (all []string) {
	for _, r := range s.Requests() {
		all = append(all, r.Input...)
	}
	return all
}

func (s *Embeddings) handle(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Model string   `json:"model"`
		Input []string `json:"input"`
	}
	refuse := func(status int, format string, args ...any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{
			"message": fmt.Sprintf(format, args...), "type": "invalid_request_error", "param": nil, "code": nil,
		}})
	}
	err := json.NewDecoder(r.Body).Decode(&body)
	switch {
	case r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/embeddings"):
		refuse(http.StatusNotFound, "Unknown request URL: %s %s", r.Method, r.URL.Path)
		return
	case err != nil:
		refuse(http.StatusBadRequest, "We could not parse the JSON body of your request: %v", err)
		return
	case body.Model == "":
		refuse(http.StatusBadRequest, "you must provide a model parameter")
		return
	case len(body.Input) == 0 || len(body.Input) > maxEmbeddingInputs:
		refuse(http.StatusBadRequest, "'$.input' is invalid: %d texts", len(body.Input))
		return
	}
	for _, text := range body.Input {
		if text == "" {
			refuse(http.StatusBadRequest, "'$.input' is invalid: an empty text")
			return
		}
	}
	req := EmbeddingRequest{Host: r.Host, Path: r.URL.Path, Header: r.Header, Model: body.Model, Input: body.Input}
	s.mu.Lock()
	req.N = len(s.all)
	s.all = append(s.all, req)
	s.mu.Unlock()
	var reply EmbeddingReply
	if s.script != nil {
		reply = s.script(req)
	}
	if reply.Wait != nil {
		select {
		case <-reply.Wait:
		case <-r.Context().Done():
			return
		}
	}
	if reply.RetryAfter > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(reply.RetryAfter.Seconds()))
	}
	if reply.Status != 0 {
		refuse(reply.Status, "%s", reply.Message)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if reply.Body != "" {
		_, _ = w.Write([]byte(reply.Body))
		return
	}
	data, tokens := make([]map[string]any, len(body.Input)), 0
	for i, text := range body.Input {
		data[i] = map[string]any{"object": "embedding", "index": i, "embedding": s.vector(text)}
		tokens += len(strings.Fields(text))
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"object": "list", "data": data, "model": body.Model, "usage": map[string]int{"prompt_tokens": tokens, "total_tokens": tokens},
	})
}

// vector is the sum of a vector for each word of a text that has four letters or more.
func (s *Embeddings) vector(text string) []float32 {
	out := make([]float32, embeddingDims)
	for _, word := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) }) {
		if same, ok := s.same[word]; ok {
			word = same
		}
		if len(word) < 4 {
			continue
		}
		hash := fnv.New64a()
		_, _ = hash.Write([]byte(word))
		random := rand.New(rand.NewPCG(hash.Sum64(), 0))
		for i := range out {
			out[i] += float32(random.NormFloat64())
		}
	}
	return out
}
