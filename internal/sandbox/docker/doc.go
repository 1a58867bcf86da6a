// Package docker is the tier that executes programs with Node.js in containers, through the API of a Docker engine. A container executes one program;
// then it is killed and removed. Its walls are those of a container: an unprivileged user, a read-only root, no network, a list of system calls
// without sockets and processes, and limits on memory, processors, processes and files. With gVisor (runtime runsc) a separate kernel stands between
// the container and the kernel of the machine.
//
// A container has no mount and no file of the harness. Node.js is started with a short script (bootstrap.cjs), which examines the walls from within
// and then reads the runner from its standard input; it is the same runner as in the process tier. So any image with Node.js works, and one image
// serves all versions of the harness. The harness attaches to the container before it starts it, and separates the engine's chunks of output and
// errors (runner.go). It looks up the id of the image once, when it starts: a tag that moves later does not affect it.
//
// The limits of the container's control group are read from cgroup version 2, or from version 1 if that is in use (TestGroups). The harness also
// compares the container that the engine has created with the container that it asked for (asFor). Programs do not run without the limits of the
// control group: a rootless engine on version 1 is refused.
//
// When a container ends by itself, the harness asks the engine for the exit code, and whether the kernel killed the container because it was out
// of memory. Containers are removed in the background, four at a time, whether they ended or were killed. A container counts toward sandbox.pool
// until the engine has removed it; a removal that fails is tried again. If the connection to a container breaks, the container is killed. The
// labels of a container identify the process of the harness that created it, and the directory of this process. Each process locks a file in its
// directory, and the lock ends with the process. So the next process can tell which containers belong to dead processes, and removes them. This
// works even where process ids mean nothing: inside containers, or with an engine on another machine. A container ends when its standard input
// ends; a busy one ends at its limit of processor time.
package docker
