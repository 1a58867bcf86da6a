package harness

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// slashed returns an escaped path with a leading slash, or an empty text.
func slashed(path string) string {
	var b strings.Builder
	for _, part := range strings.FieldsFunc(path, func(r rune) bool { return r == '/' }) {
		b.WriteString("/" + url.PathEscape(part))
	}
	return b.String()
}

func fileOf(session, path string) string { return join("sessions", session, "files") + slashed(path) }

// Files lists what is below a folder of a session; an empty folder is the whole session.
func (c *Client) Files(ctx context.Context, session, folder string) (FileList, error) {
	return get[FileList](ctx, c, fileOf(session, folder), nil)
}

// Zip returns an archive of a folder.
func (c *Client) Zip(ctx context.Context, session, folder string) ([]byte, error) {
	_, text, err := c.send(ctx, request{method: http.MethodGet, path: fileOf(session, folder), query: url.Values{"format": {"zip"}}})
	return text, err
}

// Reading says what of a file to read.
type Reading struct {
	Start int    // offset in bytes
	ETag  string // nothing is read if the file still has it
	Raw   bool   // tokens in place of personal data
}

// File reads a file, and returns its ETag. The data are nil if the file has the ETag of the request. A download that was cut off goes on where it ended.
func (c *Client) File(ctx context.Context, session, path string, of Reading) (data []byte, etag string, err error) {
	data = []byte{}
	for t := c.tries(); ; {
		r := request{method: http.MethodGet, path: fileOf(session, path), header: map[string]string{}}
		if of.Raw {
			r.query = url.Values{"raw": {"true"}}
		}
		if from := of.Start + len(data); from > 0 {
			r.header["Range"] = fmt.Sprintf("bytes=%d-", from)
		}
		if etag != "" {
			r.header["If-Range"] = etag
		} else if of.ETag != "" {
			r.header["If-None-Match"] = of.ETag
		}
		resp, err := c.open(ctx, r)
		if err == nil {
			etag = resp.Header.Get("ETag")
			if resp.StatusCode == http.StatusNotModified {
				resp.Body.Close()
				return nil, etag, nil
			}
			if resp.StatusCode == http.StatusOK { // the whole file, because it has changed
				data = data[:0]
			}
			var more []byte
			more, err = readAll(resp)
			if data = append(data, more...); err == nil {
				return data, etag, nil
			}
		}
		if err := t.next(ctx, err, true); err != nil {
			return nil, "", err
		}
	}
}

// PutFile writes a file. An upload that was cut off goes on where it ended.
func (c *Client) PutFile(ctx context.Context, session, path string, data []byte) error {
	sum := sha256.Sum256(data)
	digest := "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
	sent := 0
	for t := c.tries(); ; {
		header := map[string]string{"Repr-Digest": digest}
		if sent > 0 {
			header["Content-Range"] = fmt.Sprintf("bytes %d-%d/%d", sent, len(data)-1, len(data))
		}
		resp, err := c.open(ctx, request{method: http.MethodPut, path: fileOf(session, path), body: data[sent:], header: header})
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			return nil
		}
		if err := t.next(ctx, err, true); err != nil {
			return err
		}
		if len(data) == 0 {
			continue
		}
		header = map[string]string{"Repr-Digest": digest, "Content-Range": fmt.Sprintf("bytes */%d", len(data))}
		resp, _, err = c.send(ctx, request{method: http.MethodPut, path: fileOf(session, path), body: []byte{}, header: header})
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusAccepted { // The upload is complete.
			return nil
		}
		if sent, err = strconv.Atoi(resp.Header.Get("Upload-Offset")); err != nil || sent >= len(data) {
			sent = 0
		}
	}
}

func (c *Client) DeleteFile(ctx context.Context, session, path string) error {
	return c.remove(ctx, fileOf(session, path))
}

// VerifyWebhook reports whether a webhook comes from a harness with this secret (server.webhooks.secret) and is less than within old.
func VerifyWebhook(secret []byte, header http.Header, body []byte, within time.Duration) bool {
	stamp := header.Get("X-Harness-Timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(stamp + "."))
	mac.Write(body)
	signature := "sha256=" + hex.EncodeToString(mac.Sum(nil))
	return err == nil && time.Since(time.Unix(seconds, 0)).Abs() < within && hmac.Equal([]byte(signature), []byte(header.Get("X-Harness-Signature")))
}
