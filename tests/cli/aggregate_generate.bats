#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem aggregate generate, generated inputs and the output verify:; harness/generations.py has its own
# generator.

load helpers

setup() {
	requires numpy
	mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return
}

check() {
	run_command python "$FLMEM_TESTS/harness/generations.py" "$FLMEM" "$@"
	assert_status 0
}

@test "values are those of the documented generator" {
	check values
}

@test "the same bytes for any number of threads, from a file or as an input" {
	check same_bytes
}

# bats test_tags=unsanitised
@test "means of generated models are verified without writing them" {
	! sanitized || skip "it adds up whole models, for which a sanitised build takes minutes"
	check verified
}

@test "a resumed run is not continued with other seeds or clients" {
	check resumed
}

@test "a bar on a terminal shows the progress" {
	check progress
}

@test "a model of 16 GB is listed without making it" {
	flmem aggregate inspect --headers-only generate:llama-3.1-8b
	assert_status 0
	assert_output '291 tensors, 8030261248 parameters, 15 GiB'
	assert_output 'model.layers.31.self_attn.k_proj.weight: BF16 \[1024, 4096\], 8 MiB'
	assert_output 'lm_head.weight: BF16 \[128256, 4096\]'
}

@test "text and JSON" {
	flmem aggregate generate --shape resnet18 --dtype bf16 -o out
	assert_status 0
	assert_output 'out: 122 tensors, 22.3 MiB'
	flmem aggregate generate --shape resnet18 --dtype bf16 -o out --json
	assert_status 0
	assert_schema aggregate-generate
	flmem aggregate -o verify: generate:resnet18?client=1 generate:resnet18?client=2
	assert_status 0
	assert_output 'nothing was written: 11699132 elements are the exact mean'
	flmem aggregate -o verify: --json generate:resnet18
	assert_schema aggregate
}

@test "names, shapes and options that cannot be" {
	flmem aggregate generate -o out
	assert_error 2 'name the model with --shape'
	flmem aggregate generate --shape resnet18
	assert_error 2 'name the file to write with --output'
	flmem aggregate generate --shape resnet19 -o out
	assert_error 2 'resnet18'
	flmem aggregate generate --shape resnet18 --seed -1 -o out
	assert_error 2 "invalid number '-1' for --seed"
	flmem aggregate generate --shape resnet18 --client '1&seed=2' -o out
	assert_error 2 "for --client"
	flmem aggregate generate --shape resnet18 --dtype int8 -o out
	assert_error 2 "invalid type 'int8'"
	flmem aggregate generate --shape resnet18 -o out more
	assert_error 2 "unexpected argument 'more'"
	flmem aggregate -o out generate:gpt
	assert_error 2 "unknown shape 'gpt'; choose from resnet18"
	flmem aggregate -o out 'generate:resnet18?seed=x'
	assert_error 2 "invalid part 'seed=x'"
	flmem aggregate -o out 'generate:resnet18?seed=18446744073709551616'
	assert_error 2 'invalid part'
	flmem aggregate -o out 'generate:resnet18?seed=1&'
	assert_error 2 "invalid part ''"
	flmem aggregate -o out generate:resnet18 'generate:resnet18?dtype=bf16'
	assert_error 2 'is F32 \[64\] in .*, but BF16'
	[ ! -e out ]
}

@test "what verify: cannot check is refused" {
	flmem aggregate generate --shape resnet18 -q -o model
	flmem aggregate -o verify: generate:resnet18 model
	assert_error 2 "'model' is a file"
	flmem aggregate -o verify: --weights 1,0.5 generate:resnet18 generate:resnet18
	assert_error 2 'whole weights'
	flmem aggregate -o verify: --weights 1,1048576 generate:resnet18 generate:resnet18
	assert_error 2 'whole weights'
	flmem aggregate -o verify: -a median generate:resnet18 generate:resnet18
	assert_error 2 "not 'median'"
	flmem aggregate -o verify: -a krum generate:resnet18 generate:resnet18 \
		'generate:resnet18?client=1' 'generate:resnet18?client=2' generate:resnet18
	assert_error 2 "not 'krum'"
	flmem aggregate -o verify: --resume generate:resnet18
	assert_error 2 'nothing to resume'
	[ "$(ls -A)" = model ]
}
