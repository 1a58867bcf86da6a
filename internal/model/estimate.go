package model

import (
	"sync"

	"github.com/tiktoken-go/tokenizer/codec"
)

// Vocabulary is o200k, of OpenAI's models. It is loaded when the first text needs it; that takes some 20 ms.
var Vocabulary = sync.OnceValue(codec.NewO200kBase)

// completed is a usage with estimates for what the provider did not count.
func completed(u Usage, req *Request, written string) Usage {
	if u.Input == 0 {
		u.Input, u.Estimated = estimateRequest(req), true
	}
	if u.Output == 0 && written != "" { // the vocabulary is not loaded for a text that the provider counted
		u.Output, u.Estimated = Estimate(written), true
	}
	return u
}

// estimateRequest is about how many tokens a model reads of a request.
func estimateRequest(req *Request) int {
	n := Estimate(req.System)
	for _, t := range req.Tools {
		n += Estimate(t.Name + t.Description + string(t.InputSchema))
	}
	for _, m := range req.Messages {
		text, calls := said(m)
		n += Estimate(text)
		for _, c := range calls {
			n += Estimate(c.Name + string(c.Input))
		}
		for _, r := range m.Results {
			n += Estimate(r.Text)
		}
	}
	return n
}

// Estimate is about how many tokens a text has for a model. It counts with an encoding of OpenAI's: other models have
// others. It takes about a millisecond for 10 kB.
func Estimate(text string) int {
	const chunk = 16 << 10 // a text of megabytes is never encoded at once
	sum := 0
	for text != "" {
		part := text[:min(len(text), chunk)]
		text = text[len(part):]
		n, err := Vocabulary().Count(part)
		if err != nil { // only for a text the vocabulary cannot split; a token has some four bytes
			n = len(part)/4 + 1
		}
		sum += n
	}
	return sum
}
