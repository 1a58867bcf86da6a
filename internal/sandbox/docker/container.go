package docker

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"mcp-code-exec-harness/internal/sandbox/node"
)

// user is the user and the group that programs run as.
const user = "10001:10001"

// overhead is the memory in bytes that Node.js needs in addition to the memory of a program.
const overhead = 96 << 20

// Limits of the files of a container.
const (
	openFiles = 256
	tmpSize   = 16 << 20 // size of /tmp in bytes
	tmpFiles  = 1024     // maximum number of files in /tmp
)

// seccomp is a profile with the system calls that Node.js needs: no sockets, no processes, no programs but the first, no tracing.
//
//go:embed seccomp.json
var seccomp []byte

// bootstrap is the script that Node.js executes. It reports which walls are missing, then reads the runner from its standard input, so that any image
// with Node.js works.
//
//go:embed bootstrap.cjs
var bootstrap string

// recipe returns the options with which every container is created.
func (s *Sandbox) recipe() client.ContainerCreateOptions {
	memory := s.opt.Memory + overhead
	pids := int64(s.opt.Pids)
	// The limit is twice the computing time of a program, which may be replayed first. It also ends busy containers of a harness that was killed.
	compute := int64(math.Ceil(s.opt.CPUs) * 2 * (s.opt.Timeout + 10*time.Second).Seconds())
	expected, err := json.Marshal(map[string]any{
		"runner": len(s.script), "cache": len(s.cache), "memory": memory, "pids": pids, "cpus": s.opt.CPUs, "files": openFiles, "tmpSize": tmpSize, "tmpFiles": tmpFiles,
	})
	if err != nil {
		panic(err) // numbers always encode
	}
	limit := func(name string, n int64) *container.Ulimit { return &container.Ulimit{Name: name, Soft: n, Hard: n} }
	command := append([]string{"node"}, node.Options(s.opt.Memory)...)
	command = append(command, "-e", bootstrap, string(expected))
	return client.ContainerCreateOptions{
		Config: &container.Config{
			Image: s.image, Entrypoint: command[:1], Cmd: command[1:], User: user, WorkingDir: "/", Hostname: "sandbox", NetworkDisabled: true,
			Env:         []string{"TZ=UTC", "LANG=C.UTF-8", "HOME=/tmp", "NODE_OPTIONS=", "NODE_EXTRA_CA_CERTS="},
			AttachStdin: true, AttachStdout: true, AttachStderr: true, OpenStdin: true, StdinOnce: true,
			Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
			Labels:      s.labels(),
		},
		HostConfig: &container.HostConfig{
			Runtime: s.opt.Runtime, ReadonlyRootfs: true, CapDrop: []string{"ALL"}, NetworkMode: "none", IpcMode: "none", CgroupnsMode: "private",
			SecurityOpt: []string{"no-new-privileges", "seccomp=" + profile()},
			Tmpfs:       map[string]string{"/tmp": fmt.Sprintf("rw,noexec,nosuid,nodev,size=%d,nr_inodes=%d,mode=1777", tmpSize, tmpFiles)},
			LogConfig:   container.LogConfig{Type: "none"}, OomScoreAdj: 500,
			Resources: container.Resources{
				Memory: memory, MemorySwap: memory, NanoCPUs: int64(s.opt.CPUs * 1e9), PidsLimit: &pids,
				Ulimits: []*container.Ulimit{limit("nofile", openFiles), limit("core", 0), limit("fsize", 64<<20), limit("cpu", compute)},
			},
		},
	}
}

// profile returns seccomp in one line.
func profile() string {
	var text bytes.Buffer
	if err := json.Compact(&text, seccomp); err != nil {
		panic(fmt.Errorf("seccomp.json: %w", err)) // the profile is compiled in
	}
	return text.String()
}
