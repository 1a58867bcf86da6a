package main

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

const chart = "../../deploy/kubernetes"

// TestManifests checks that the manifests are what the chart renders, and that they are Kubernetes objects without unknown fields.
func TestManifests(t *testing.T) {
	t.Parallel()
	want, err := render(chart, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(chart + "/manifests.yaml")
	if err != nil || string(got) != string(want) {
		t.Errorf("manifests.yaml is not what the chart renders (%v): make manifests", err)
	}
	all, err := objects(want)
	if err != nil {
		t.Fatal(err)
	}
	kinds := slices.Sorted(maps.Keys(all))
	if !slices.Equal(kinds, []string{"ConfigMap", "Deployment", "NetworkPolicy", "PersistentVolumeClaim", "PodDisruptionBudget", "Service"}) {
		t.Errorf("it has %q", kinds)
	}
	d := all["Deployment"].(*appsv1.Deployment)
	pod := d.Spec.Template.Spec
	c := pod.Containers[0]
	if drain := c.Lifecycle.PreStop.Sleep.Seconds; *pod.TerminationGracePeriodSeconds <= drain+60 {
		t.Errorf("a replica is killed after %d s, and has 60 s to stop after %d s", *pod.TerminationGracePeriodSeconds, drain)
	}
	if !*pod.SecurityContext.RunAsNonRoot || !*c.SecurityContext.ReadOnlyRootFilesystem || *c.SecurityContext.AllowPrivilegeEscalation || *pod.AutomountServiceAccountToken {
		t.Errorf("%+v %+v", pod.SecurityContext, c.SecurityContext)
	}
	for _, selector := range []map[string]string{d.Spec.Selector.MatchLabels, all["Service"].(*corev1.Service).Spec.Selector} {
		for name, value := range selector {
			if d.Spec.Template.Labels[name] != value {
				t.Errorf("no pod has the label %s=%s", name, value)
			}
		}
	}
}

// TestAllParts checks that the chart with everything switched on renders objects without unknown fields.
func TestAllParts(t *testing.T) {
	t.Parallel()
	text, err := render(chart, map[string]any{
		"autoscaling": map[string]any{"enabled": true},
		"ingress":     map[string]any{"enabled": true, "className": "nginx", "tlsSecret": "tls", "annotations": map[string]any{"a": "b"}},
		"state":       map[string]any{"existingClaim": "files"},
		"config":      map[string]any{"pii": map[string]any{"vault": "redis"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	all, err := objects(text)
	if err != nil {
		t.Fatal(err)
	}
	if all["HorizontalPodAutoscaler"] == nil || all["Ingress"] == nil || all["PersistentVolumeClaim"] != nil || all["Deployment"].(*appsv1.Deployment).Spec.Replicas != nil {
		t.Errorf("got %s", text)
	}
	config := all["ConfigMap"].(*corev1.ConfigMap).Data["harness.yaml"]
	for _, line := range []string{"- harness.example.com", "shutdownTimeout: 60s", "vault: redis", "listen: 0.0.0.0:3000"} {
		if !strings.Contains(config, line) {
			t.Errorf("no %q in\n%s", line, config)
		}
	}
}

// TestStrict checks that a field that Kubernetes does not know is refused, even if it differs from a known one only by case.
func TestStrict(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"apiVersion: v1\nkind: Service\nspec: {selectr: {a: b}}\n":                  `unknown field "spec.selectr"`,
		"apiVersion: v1\nkind: Service\nspec: {Selector: {a: b}}\n":                 `unknown field "spec.Selector"`,
		"apiVersion: v1\nkind: Service\nspec: {ports: [{port: http}]}\n":            "cannot unmarshal string",
		"apiVersion: v1\nkind: Service\nmetadata: {name: a}\nmetadata: {name: b}\n": "already set",
		"apiVersion: v2\nkind: Service\n":                                           `no kind "v2 Service"`,
	} {
		if _, err := objects([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
