// Reads user data with AWS's own nodeadm, as the first boot of an EKS AL2023 node does.
//
// The standard input is a JSON document: the user data, and what the instance's metadata service says. The standard
// output is what nodeadm would write for the kubelet. If nodeadm refuses the user data, its error is the standard error,
// and the exit status is 1.
//
// This module lies under nodeadm's import path, because Go then lets it use nodeadm's internal packages. Nothing of
// nodeadm is replaced: the program calls it step by step as `nodeadm init` does, and only does not write to /etc, start
// daemons, or ask a real metadata service.
package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"reflect"
	"strings"

	k8skubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/awslabs/amazon-eks-ami/nodeadm/internal/api"
	"github.com/awslabs/amazon-eks-ami/nodeadm/internal/configprovider"
	"github.com/awslabs/amazon-eks-ami/nodeadm/internal/kubelet"
)

// boot is what the instance knows when it boots.
type boot struct {
	UserData string              `json:"userData"`
	Instance api.InstanceDetails `json:"instance"`
	Address  string              `json:"address"`
	// Pods is what EC2 says about a type that nodeadm's own table does not have yet.
	Pods int `json:"pods"`
}

// files is what nodeadm leaves for the kubelet.
type files struct {
	// Generated is nodeadm's own configuration file, and DropIn the user's, which the kubelet merges over it.
	Generated any `json:"generated"`
	DropIn    any `json:"dropIn"`
	// Flags are appended to the kubelet's command line.
	Flags        []string `json:"flags"`
	Cluster      any      `json:"cluster"`
	LocalStorage string   `json:"localStorage"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var given boot
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		return err
	}
	if err := serveMetadata(given); err != nil {
		return err
	}
	config, err := configprovider.NewUserDataConfigProvider().Provide()
	if err != nil {
		return err
	}
	config.Status.Instance = given.Instance
	if err := api.ValidateNodeConfig(config); err != nil {
		return err
	}
	if err := checkTypes(config.Spec.Kubelet.Config); err != nil {
		return err
	}
	if _, known := kubelet.MaxPodsPerInstanceType[given.Instance.Type]; !known {
		kubelet.MaxPodsPerInstanceType[given.Instance.Type] = given.Pods
	}
	generated, err := generate(config)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(files{
		Generated:    generated,
		DropIn:       config.Spec.Kubelet.Config,
		Flags:        config.Spec.Kubelet.Flags,
		Cluster:      config.Spec.Cluster,
		LocalStorage: string(config.Spec.Instance.LocalStorage.Strategy),
	})
}

// serveMetadata answers as the instance's metadata service, on a port of its own on loopback.
func serveMetadata(given boot) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	os.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://"+listener.Addr().String())
	go http.Serve(listener, http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		switch strings.TrimPrefix(request.URL.Path, "/latest/") {
		case "api/token":
			writer.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "300")
			fmt.Fprint(writer, "token")
		case "user-data":
			fmt.Fprint(writer, given.UserData)
		case "meta-data/local-ipv4":
			fmt.Fprint(writer, given.Address)
		default:
			http.NotFound(writer, request)
		}
	}))
	return nil
}

// generate calls the exported method of a type that nodeadm does not export.
func generate(config *api.NodeConfig) (any, error) {
	daemon := reflect.ValueOf(kubelet.NewKubeletDaemon(nil))
	answer := daemon.MethodByName("GenerateKubeletConfig").Call([]reflect.Value{reflect.ValueOf(config)})
	if err, failed := answer[1].Interface().(error); failed {
		return nil, err
	}
	return answer[0].Interface(), nil
}

// checkTypes decodes the user's settings as the kubelet does, which does not start with a value of a wrong type. It
// ignores unknown fields in v1beta1.
func checkTypes(settings api.InlineDocument) error {
	content, err := json.Marshal(settings)
	if err != nil {
		return err
	}
	var decoded k8skubelet.KubeletConfiguration
	if err := json.Unmarshal(content, &decoded); err != nil {
		return fmt.Errorf("the kubelet refuses its configuration: %w", err)
	}
	return nil
}
