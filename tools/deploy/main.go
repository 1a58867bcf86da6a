// Command deploy renders the Helm chart of deploy/kubernetes into plain manifests, with the chart's own values. It has a module of its own, because Helm is large.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"maps"
	"os"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: deploy CHART FILE")
	}
	text, err := render(os.Args[1], nil)
	if err == nil {
		_, err = objects(text)
	}
	if err == nil {
		err = os.WriteFile(os.Args[2], text, 0o644)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// render returns what helm template harness CHART prints, in the order of the templates' names.
func render(chart string, values map[string]any) ([]byte, error) {
	c, err := loader.LoadDir(chart)
	if err != nil {
		return nil, err
	}
	all, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: "harness", Namespace: "default", IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	fmt.Fprintln(&out, "# Rendered from the chart beside it, with its own values: make manifests")
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if text := strings.TrimSpace(files[name]); text != "" {
			fmt.Fprintf(&out, "---\n%s\n", text)
		}
	}
	return out.Bytes(), nil
}

// kinds maps each kind that the chart may contain to a function that returns an empty object.
var kinds = map[string]func() runtime.Object{
	"apps/v1 Deployment":                     func() runtime.Object { return &appsv1.Deployment{} },
	"autoscaling/v2 HorizontalPodAutoscaler": func() runtime.Object { return &autoscalingv2.HorizontalPodAutoscaler{} },
	"v1 ConfigMap":                           func() runtime.Object { return &corev1.ConfigMap{} },
	"v1 Service":                             func() runtime.Object { return &corev1.Service{} },
	"v1 PersistentVolumeClaim":               func() runtime.Object { return &corev1.PersistentVolumeClaim{} },
	"networking.k8s.io/v1 NetworkPolicy":     func() runtime.Object { return &networkingv1.NetworkPolicy{} },
	"networking.k8s.io/v1 Ingress":           func() runtime.Object { return &networkingv1.Ingress{} },
	"policy/v1 PodDisruptionBudget":          func() runtime.Object { return &policyv1.PodDisruptionBudget{} },
}

// objects decodes manifests. Unknown and repeated fields are errors, as are fields whose names differ from known ones only by case.
func objects(text []byte) (all map[string]runtime.Object, err error) {
	all = map[string]runtime.Object{}
	for doc := range strings.SplitSeq("\n"+string(text), "\n---\n") {
		var kind metav1.TypeMeta
		raw, err := yaml.YAMLToJSONStrict([]byte(doc))
		if err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, doc)
		}
		if string(raw) == "null" {
			continue
		}
		if err := json.UnmarshalCaseSensitivePreserveInts(raw, &kind); err != nil {
			return nil, err
		}
		name := kind.APIVersion + " " + kind.Kind
		if kinds[name] == nil {
			return nil, fmt.Errorf("no kind %q is known here", name)
		}
		object := kinds[name]()
		strict, err := json.UnmarshalStrict(raw, object)
		if err := errors.Join(append(strict, err)...); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all[kind.Kind] = object
	}
	return all, nil
}
