// Says what the kubelet's own configuration type takes.
//
// `types FOLDER` prints the fields of each type as JSON. FOLDER has the source of the type's package, because the
// values of an enumeration are constants, which reflection does not see. `decode` reads one JSON document a line, and
// prints for each what a strict decoder finds wrong with it, or an empty line.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strconv"
	"strings"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	strict "sigs.k8s.io/json"
)

// scalars are the types that read their JSON themselves, and what the table calls them.
var scalars = map[string]string{
	"k8s.io/apimachinery/pkg/apis/meta/v1.Duration":        "duration",
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":            "time",
	"k8s.io/apimachinery/pkg/api/resource.Quantity":        "quantity",
	"k8s.io/component-base/logs/api/v1.TimeOrMetaDuration": "durationOrNanoseconds",
	"k8s.io/apimachinery/pkg/api/resource.QuantityValue":   "quantity",
}

// table is what a kubelet takes.
type table struct {
	// Types has the fields of each type, with the kind of each.
	Types map[string]map[string]string `json:"types"`
	// Values has the values of each enumeration.
	Values map[string][]string `json:"values"`

	packages map[string]string
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	switch {
	case len(arguments) == 2 && arguments[0] == "types":
		return printTypes(arguments[1])
	case len(arguments) == 1 && arguments[0] == "decode":
		return decode()
	}
	return fmt.Errorf("usage: types FOLDER, or decode")
}

func printTypes(folder string) error {
	values, err := enumerations(folder)
	if err != nil {
		return err
	}
	written := table{Types: map[string]map[string]string{}, Values: map[string][]string{}, packages: map[string]string{}}
	if _, err := written.add(reflect.TypeOf(kubeletconfig.KubeletConfiguration{}), values); err != nil {
		return err
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	return encoder.Encode(written)
}

// add returns the kind of a type. It writes down the fields of a struct.
func (written table) add(kind reflect.Type, values map[string][]string) (string, error) {
	if kind.Kind() == reflect.Pointer {
		return written.add(kind.Elem(), values)
	}
	if scalar, ok := scalars[kind.PkgPath()+"."+kind.Name()]; ok {
		return scalar, nil
	}
	if reflect.PointerTo(kind).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return "", fmt.Errorf("%s reads its JSON itself, and `scalars` does not say what it takes", kind)
	}
	switch kind.Kind() {
	case reflect.Bool, reflect.String, reflect.Int32, reflect.Int64, reflect.Uint32, reflect.Float64:
		if allowed := values[kind.Name()]; len(allowed) > 0 && kind.PkgPath() == packagePath() {
			written.Values[kind.Name()] = allowed
			return kind.Name(), nil
		}
		return kind.Kind().String(), nil
	case reflect.Slice:
		element, err := written.add(kind.Elem(), values)
		return "[]" + element, err
	case reflect.Map:
		element, err := written.add(kind.Elem(), values)
		return "map[string]" + element, err
	case reflect.Struct:
		return kind.Name(), written.addStruct(kind, values)
	}
	return "", fmt.Errorf("%s is of a kind that no table has yet", kind)
}

func (written table) addStruct(kind reflect.Type, values map[string][]string) error {
	if _, added := written.Types[kind.Name()]; added {
		if other := written.packages[kind.Name()]; other != kind.PkgPath() {
			return fmt.Errorf("two types have the name %s: in %s and in %s", kind.Name(), other, kind.PkgPath())
		}
		return nil
	}
	written.packages[kind.Name()] = kind.PkgPath()
	fields := map[string]string{}
	written.Types[kind.Name()] = fields
	return written.addFields(kind, fields, values)
}

func (written table) addFields(kind reflect.Type, fields map[string]string, values map[string][]string) error {
	for index := range kind.NumField() {
		field := kind.Field(index)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported():
			continue
		case name == "" && field.Anonymous:
			if err := written.addFields(field.Type, fields, values); err != nil {
				return err
			}
			continue
		case name == "":
			name = field.Name
		}
		added, err := written.add(field.Type, values)
		if err != nil {
			return err
		}
		fields[name] = added
	}
	return nil
}

func packagePath() string {
	return reflect.TypeOf(kubeletconfig.KubeletConfiguration{}).PkgPath()
}

// enumerations returns the constants of each named string type of a package.
func enumerations(folder string) (map[string][]string, error) {
	packages, err := parser.ParseDir(token.NewFileSet(), folder, nil, 0)
	if err != nil {
		return nil, err
	}
	values := map[string][]string{}
	for _, parsed := range packages {
		for _, file := range parsed.Files {
			ast.Inspect(file, func(node ast.Node) bool {
				constant, ok := node.(*ast.ValueSpec)
				if !ok {
					return true
				}
				kind, ok := constant.Type.(*ast.Ident)
				if !ok {
					return true
				}
				for _, value := range constant.Values {
					if literal, ok := value.(*ast.BasicLit); ok && literal.Kind == token.STRING {
						if text, err := strconv.Unquote(literal.Value); err == nil {
							values[kind.Name] = append(values[kind.Name], text)
						}
					}
				}
				return true
			})
		}
	}
	return values, nil
}

func decode() error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		faults, err := strict.UnmarshalStrict(lines.Bytes(), &kubeletconfig.KubeletConfiguration{})
		if err != nil {
			faults = append(faults, err)
		}
		said := make([]string, 0, len(faults))
		for _, fault := range faults {
			said = append(said, strings.ReplaceAll(fault.Error(), "\n", " "))
		}
		fmt.Println(strings.Join(said, "; "))
	}
	return lines.Err()
}
