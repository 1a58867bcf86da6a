package redis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"mcp-code-exec-harness/internal/pii"
)

// minVersion is the first major version of Redis that supports user names.
const minVersion = 6

// Check connects to the server. warnings lists settings of the server that may cause the loss of tokens.
func (v *Vault) Check(ctx context.Context) (warnings []string, err error) {
	if err := v.client.Ping(ctx).Err(); err != nil {
		return nil, v.explain(ctx, "connect", err)
	}
	text, err := v.client.Info(ctx, "server", "memory", "persistence").Result()
	if err != nil { // the user may lack the permission for INFO
		return nil, nil
	}
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	major, _, _ := strings.Cut(info["redis_version"], ".")
	if n, err := strconv.Atoi(major); err == nil && n < minVersion {
		return nil, fmt.Errorf("%s has version %s: install Redis %d or newer, or set pii.vault to store", v.name(), info["redis_version"], minVersion)
	}
	if info["aof_enabled"] == "0" {
		warnings = append(warnings, v.name()+" loses tokens when it stops: set appendonly yes in its configuration")
	}
	if policy := info["maxmemory_policy"]; policy != "" && policy != "noeviction" && info["maxmemory"] != "0" {
		warnings = append(warnings, v.name()+" evicts tokens when its memory is full: set maxmemory-policy noeviction in its configuration")
	}
	return warnings, nil
}

// explain adds the operation, the server and a remedy to an error.
func (v *Vault) explain(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s in %s: %w", what, v.name(), ctx.Err())
	}
	remedy, later := remedyFor(err, v.client.Options().TLSConfig != nil)
	err = fmt.Errorf("%s in %s: %w", what, v.name(), err)
	if remedy != "" {
		err = fmt.Errorf("%w; %s", err, remedy)
	}
	if later {
		err = fmt.Errorf("%w: %w", pii.ErrUnavailable, err)
	}
	return err
}

// remedyFor returns a remedy for an error. later reports whether the operation may succeed later without the remedy.
func remedyFor(err error, isTLS bool) (remedy string, later bool) {
	const start = "start it, correct redis.address (REDIS_HOST, REDIS_PORT) or redis.url, or set pii.vault to store"
	if answer, ok := errors.AsType[goredis.Error](err); ok {
		code, _, _ := strings.Cut(answer.Error(), " ")
		switch text := answer.Error(); {
		case code == "NOAUTH", code == "WRONGPASS", strings.Contains(text, "invalid password"), strings.Contains(text, "AUTH"):
			return "set redis.password (REDIS_PASSWORD), and redis.username where it has users", false
		case code == "NOPERM":
			return "allow this user the commands on keys harness:pii:*", false
		case code == "OOM":
			return "its memory is full: raise maxmemory", true
		case code == "READONLY":
			return "it is a replica: name the primary in redis.address", true
		case strings.Contains(text, "DB index"):
			return "correct redis.db (REDIS_DB)", false
		}
		return "", code == "LOADING" || code == "MASTERDOWN" || code == "CLUSTERDOWN" || code == "TRYAGAIN" || code == "MISCONF"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "its certificate is not trusted: set redis.ca to the file of its authority, or name the host in redis.address as the certificate does", false
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "name the host in redis.address as its certificate does", false
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "it does not speak TLS at this port: unset redis.tls (REDIS_TLS_ENABLED), or name its TLS port", false
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return start, true
	}
	if errors.Is(err, io.EOF) && !isTLS {
		return "it closed the connection: set redis.tls (REDIS_TLS_ENABLED) if it wants TLS", true
	}
	return "", true
}
