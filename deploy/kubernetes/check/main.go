// Reads Kubernetes objects from standard input, as `helm template` writes them, into the types of the API, strictly: an unknown
// or misspelt field, a wrong kind of value and an unknown kind of object are faults.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

var kinds = map[string]func() any{
	"apps/v1/StatefulSet":                             func() any { return &appsv1.StatefulSet{} },
	"v1/ConfigMap":                                    func() any { return &corev1.ConfigMap{} },
	"v1/Namespace":                                    func() any { return &corev1.Namespace{} },
	"v1/Service":                                      func() any { return &corev1.Service{} },
	"v1/ServiceAccount":                               func() any { return &corev1.ServiceAccount{} },
	"networking.k8s.io/v1/NetworkPolicy":              func() any { return &networkingv1.NetworkPolicy{} },
	"policy/v1/PodDisruptionBudget":                   func() any { return &policyv1.PodDisruptionBudget{} },
	"rbac.authorization.k8s.io/v1/ClusterRole":        func() any { return &rbacv1.ClusterRole{} },
	"rbac.authorization.k8s.io/v1/ClusterRoleBinding": func() any { return &rbacv1.ClusterRoleBinding{} },
	"rbac.authorization.k8s.io/v1/Role":               func() any { return &rbacv1.Role{} },
	"rbac.authorization.k8s.io/v1/RoleBinding":        func() any { return &rbacv1.RoleBinding{} },
	// Of the Prometheus operator, whose types are not among those of the API: only that it is an object.
	"monitoring.coreos.com/v1/ServiceMonitor": func() any { return &map[string]any{} },
}

func main() {
	if err := check(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func check(in io.Reader) error {
	all, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	reader := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(all)))
	defer reader.Close()
	seen := 0
	for {
		document := make([]byte, len(all)+1)
		n, err := reader.Read(document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		var head struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Metadata   struct {
				Name string `json:"name"`
			} `json:"metadata"`
		}
		if err := yaml.Unmarshal(document[:n], &head); err != nil {
			return err
		}
		if head.Kind == "" {
			continue
		}
		make, known := kinds[head.APIVersion+"/"+head.Kind]
		if !known {
			return fmt.Errorf("%s %s: not known here", head.APIVersion, head.Kind)
		}
		if head.Metadata.Name == "" {
			return fmt.Errorf("a %s without a name", head.Kind)
		}
		object, err := yaml.YAMLToJSONStrict(document[:n])
		if err != nil {
			return fmt.Errorf("%s %s: %w", head.Kind, head.Metadata.Name, err)
		}
		// As the API server reads it: letter case counts.
		strict, err := json.UnmarshalStrict(object, make())
		if err := errors.Join(append(strict, err)...); err != nil {
			return fmt.Errorf("%s %s: %w", head.Kind, head.Metadata.Name, err)
		}
		seen++
	}
	if seen == 0 {
		return errors.New("no objects")
	}
	fmt.Printf("%d objects\n", seen)
	return nil
}
