module github.com/statekeel/statekeel

go 1.25.0

require (
	github.com/cilium/hive v1.0.4
	github.com/cilium/statedb v0.8.3
	github.com/stretchr/testify v1.11.1
	go.uber.org/goleak v1.3.0
	go.yaml.in/yaml/v3 v3.0.4
	golang.org/x/time v0.15.0
	pgregory.net/rapid v1.2.0
)
