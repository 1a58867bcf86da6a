// Package walls contains what packages jail and confine build their walls from: filters of system calls, rules of Landlock, and a separate root
// directory. Those packages decide which walls a process gets, and what the walls allow. It is for Linux only.
package walls
