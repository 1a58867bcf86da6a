// Package bucket stores objects in a bucket of a server that speaks the protocol of Amazon S3, with writes that depend on what the bucket has.
package bucket

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"
)

// Options describe the bucket and how to reach it.
type Options struct {
	Bucket    string // name of the bucket, which exists
	Endpoint  string // https://s3.eu-central-1.amazonaws.com; a path is not allowed
	Region    string
	Prefix    string // beginning of all keys, without "/" at the end; empty for none
	AccessKey string
	SecretKey string
	CA        string // PEM file with the certificates of authorities; empty means the system's
}

const (
	patience    = 10 * time.Second // how long a request is repeated while the server does not answer; a server that is restarted is back within this time
	attemptTime = 15 * time.Second // maximum duration of an attempt; an object has at most a few MiB
	firstWait   = 50 * time.Millisecond
	maxWait     = time.Second
)

var (
	// ErrNotFound means that the bucket has no object with the key.
	ErrNotFound = errors.New("no such object")
	// ErrConflict means that an object is not as a write expected it.
	ErrConflict = errors.New("the object has changed")
	// ErrUnchanged means that an object is still as the reader knows it.
	ErrUnchanged = errors.New("the object has not changed")
	// ErrUnavailable means that the server does not answer or is overloaded. A later attempt may succeed. A write may have taken effect.
	ErrUnavailable = errors.New("the bucket does not answer")
)

// Absent as the expected version of an object means that there is no object with the key.
const Absent = "*"

// Bucket is a bucket, or the part of it below a prefix. It is safe for concurrent use. All methods may be repeated. They repeat requests that
// fail for a passing reason, for ten seconds or until their context ends. After that they make one attempt each until the server answers again.
type Bucket struct {
	client   minio.Core
	name     string
	prefix   string // "" or with "/" at the end
	patience time.Duration
	away     atomic.Bool // a request gave up, and none has been answered since: requests make one attempt
	idle     func()
}

// Object describes an object.
type Object struct {
	Key      string // without the prefix of the bucket; ends with "/" if it stands for all keys with this beginning
	Size     int64
	Modified time.Time // time of the last write, by the clock of the server
}

// OpenVerified is Open and Verify.
func OpenVerified(ctx context.Context, o Options) (*Bucket, error) {
	b, err := Open(o)
	if err != nil {
		return nil, err
	}
	if err := b.Verify(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// Open returns the bucket with the given options. It does not connect; Check and Verify do. The caller must call Close.
func Open(o Options) (*Bucket, error) {
	at, err := url.Parse(o.Endpoint)
	switch {
	case err != nil, at.Scheme != "http" && at.Scheme != "https", at.Host == "", strings.Trim(at.Path, "/") != "", at.User != nil, at.RawQuery != "":
		return nil, fmt.Errorf("files.endpoint: %q is not of the form https://host:port", o.Endpoint)
	}
	if err := s3utils.CheckValidBucketName(o.Bucket); err != nil {
		return nil, fmt.Errorf("files.bucket: %w", err)
	}
	transport := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second, ResponseHeaderTimeout: 10 * time.Second, IdleConnTimeout: 30 * time.Second,
		MaxIdleConns: 128, MaxIdleConnsPerHost: 128, DisableCompression: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
	if o.CA != "" {
		pem, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, fmt.Errorf("files.ca: %w", err)
		}
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("files.ca: %s has no certificate in PEM", o.CA)
		}
	}
	client, err := minio.NewCore(at.Host, &minio.Options{
		Creds: credentials.NewStaticV4(o.AccessKey, o.SecretKey, ""), Secure: at.Scheme == "https", Region: o.Region, Transport: transport, MaxRetries: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("files.endpoint: %w", err)
	}
	b := &Bucket{client: *client, name: o.Bucket, patience: patience, idle: transport.CloseIdleConnections}
	if b.prefix = strings.Trim(o.Prefix, "/"); b.prefix != "" {
		b.prefix += "/"
	}
	return b, nil
}

// Hasty makes all later requests fail at once if the server does not answer. It is called before the first request.
func (b *Bucket) Hasty() { b.patience = 0 }

// Close closes idle connections.
func (b *Bucket) Close() error {
	b.idle()
	return nil
}

// Check opens a bucket and calls its Check.
func Check(ctx context.Context, open func() (*Bucket, error)) error {
	b, err := open()
	if err != nil {
		return err
	}
	return b.Check(ctx)
}

// Check returns an error if the bucket cannot be reached or does not exist. It makes one attempt.
func (b *Bucket) Check(ctx context.Context) error {
	exists, err := b.client.BucketExists(ctx, b.name)
	switch {
	case err != nil:
		return b.explain(err)
	case !exists:
		return b.missing()
	}
	return nil
}

func (b *Bucket) missing() error {
	return fmt.Errorf("there is no bucket %q at %s that files.accessKey may use; create it, or correct files.bucket or files.accessKey", b.name, b.client.EndpointURL())
}

// Verify returns an error if the server does not refuse a write whose condition does not hold, or if objects cannot be written, listed and removed.
func (b *Bucket) Verify(ctx context.Context) (err error) {
	if err := b.Check(ctx); err != nil {
		return err
	}
	key := ".probe/" + rand.Text()
	version, err := b.Put(ctx, key, []byte("1"), Absent)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Delete(context.WithoutCancel(ctx), key)) }()
	const need = "the server at %s does not keep the condition %s of writes, without which processes overwrite each other's files; use a server that does, such as Amazon S3, MinIO, Ceph or Cloudflare R2, or directories"
	if _, err := b.Put(ctx, key, []byte("2"), Absent); !errors.Is(err, ErrConflict) {
		return cmp.Or(err, fmt.Errorf(need, b.client.EndpointURL(), "If-None-Match"))
	}
	if _, err := b.Put(ctx, key, []byte("3"), strings.Repeat("0", 32)); !errors.Is(err, ErrConflict) {
		return cmp.Or(err, fmt.Errorf(need, b.client.EndpointURL(), "If-Match"))
	}
	if _, err := b.Put(ctx, key, []byte("4"), version); err != nil {
		return err
	}
	found := false
	err = b.List(ctx, ".probe/", true, func(o Object) error {
		found = found || o.Key == key
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("the server at %s does not list an object that was just written", b.client.EndpointURL())
	}
	return err
}

// Get returns an object and its version. If known is the version of the object, Get returns ErrUnchanged.
func (b *Bucket) Get(ctx context.Context, key, known string) (data []byte, version string, err error) {
	var opts minio.GetObjectOptions
	if known != "" {
		if err := opts.SetMatchETagExcept(known); err != nil {
			return nil, "", err
		}
	}
	return b.get(ctx, key, opts)
}

// Read returns length bytes of an object from offset on, or fewer at its end. length is greater than 0.
func (b *Bucket) Read(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	var opts minio.GetObjectOptions
	if err := opts.SetRange(offset, offset+length-1); err != nil {
		return nil, err
	}
	data, _, err := b.get(ctx, key, opts)
	return data, err
}

func (b *Bucket) get(ctx context.Context, key string, opts minio.GetObjectOptions) (data []byte, version string, err error) {
	err = b.try(ctx, func(ctx context.Context) error {
		body, info, _, err := b.client.GetObject(ctx, b.name, b.prefix+key, opts)
		if err != nil {
			return err
		}
		defer body.Close()
		version = info.ETag
		data, err = io.ReadAll(body)
		if err == nil && int64(len(data)) != info.Size {
			err = io.ErrUnexpectedEOF
		}
		return err
	})
	return data, version, err
}

// Put writes an object if it has the expected version, else it returns ErrConflict. expected is a version, Absent, or "" for a write without a
// condition. After a request that was repeated, ErrConflict may be the consequence of the write itself.
func (b *Bucket) Put(ctx context.Context, key string, data []byte, expected string) (version string, err error) {
	opts := minio.PutObjectOptions{ContentType: "application/octet-stream", DisableMultipart: true}
	switch expected {
	case "":
	case Absent:
		opts.SetMatchETagExcept(Absent)
	default:
		opts.SetMatchETag(expected)
	}
	sum := sha256.Sum256(data)
	err = b.try(ctx, func(ctx context.Context) error {
		info, err := b.client.PutObject(ctx, b.name, b.prefix+key, bytes.NewReader(data), int64(len(data)), "", hex.EncodeToString(sum[:]), opts)
		version = info.ETag
		return err
	})
	if errors.Is(err, ErrNotFound) && expected != "" && expected != Absent {
		err = ErrConflict
	}
	return version, err
}

// Delete removes objects. It is no error if an object does not exist.
func (b *Bucket) Delete(ctx context.Context, keys ...string) error {
	if len(keys) == 1 {
		err := b.try(ctx, func(ctx context.Context) error {
			return b.client.RemoveObject(ctx, b.name, b.prefix+keys[0], minio.RemoveObjectOptions{})
		})
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		return err
	}
	for some := range slices.Chunk(keys, 1000) { // the limit of the protocol
		err := b.try(ctx, func(ctx context.Context) error {
			results, err := b.client.RemoveObjectsWithIter(ctx, b.name, func(yield func(minio.ObjectInfo) bool) {
				for _, key := range some {
					if !yield(minio.ObjectInfo{Key: b.prefix + key}) {
						return
					}
				}
			}, minio.RemoveObjectsOptions{})
			if err != nil {
				return err
			}
			for result := range results {
				if result.Err != nil && minio.ToErrorResponse(result.Err).Code != minio.NoSuchKey {
					err = result.Err
				}
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// List calls visit for each object whose key begins with prefix, in the order of their keys. If recursive is false, objects whose keys have a "/"
// after prefix are visited as one Object with the key up to this "/". An error of visit ends List, which returns it.
func (b *Bucket) List(ctx context.Context, prefix string, recursive bool, visit func(Object) error) error {
	after, visited := "", error(nil)
	err := b.try(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx) // ends the listing when visit ends it
		defer cancel()
		for o := range b.client.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{Prefix: b.prefix + prefix, Recursive: recursive, StartAfter: after}) {
			if o.Err != nil {
				return o.Err
			}
			if o.Key <= after {
				continue // a server may ignore StartAfter for keys with a delimiter
			}
			after = o.Key
			if visited = visit(Object{Key: strings.TrimPrefix(o.Key, b.prefix), Size: o.Size, Modified: o.LastModified}); visited != nil {
				return nil
			}
		}
		return ctx.Err()
	})
	if visited != nil {
		return visited
	}
	return err
}

// try calls do until it succeeds, fails for a lasting reason, or the patience is over. Until the server answers again, later requests do not wait.
func (b *Bucket) try(ctx context.Context, do func(context.Context) error) error {
	end := time.Now().Add(b.patience)
	for wait := firstWait; ; wait = min(2*wait, maxWait) {
		attempt, cancel := context.WithTimeout(ctx, attemptTime)
		err := b.explain(do(attempt))
		cancel()
		unavailable := errors.Is(err, ErrUnavailable)
		if !unavailable {
			b.away.Store(false)
		}
		if !unavailable || ctx.Err() != nil || b.away.Load() || time.Now().Add(wait).After(end) {
			if unavailable && ctx.Err() == nil {
				b.away.Store(true)
			}
			if ctx.Err() != nil && err != nil {
				return errors.Join(ctx.Err(), err)
			}
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// explain returns the error of a request as one of the errors of this package, or with what to do.
func (b *Bucket) explain(err error) error {
	if err == nil {
		return nil
	}
	answer, ok := errors.AsType[minio.ErrorResponse](err)
	if !ok { // the connection failed
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	switch {
	case answer.StatusCode == http.StatusNotModified:
		return ErrUnchanged
	case answer.StatusCode == http.StatusPreconditionFailed, answer.Code == "ConditionalRequestConflict":
		return ErrConflict
	case answer.Code == minio.NoSuchBucket:
		return b.missing()
	case answer.StatusCode == http.StatusNotFound:
		return ErrNotFound
	case answer.StatusCode >= 500 && answer.StatusCode != http.StatusNotImplemented, answer.StatusCode == http.StatusTooManyRequests,
		answer.StatusCode == http.StatusRequestTimeout, answer.StatusCode == 0:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case answer.StatusCode == http.StatusForbidden, answer.StatusCode == http.StatusUnauthorized:
		return fmt.Errorf("the server at %s refuses the access to bucket %q (%s); correct files.accessKey and files.secretKey, or allow them to get, put, delete and list objects", b.client.EndpointURL(), b.name, answer.Code)
	}
	return fmt.Errorf("the server at %s refuses a request to bucket %q: %w", b.client.EndpointURL(), b.name, err)
}
