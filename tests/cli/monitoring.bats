#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What docs/ gives to Prometheus and Grafana uses only metrics that exist.

load helpers

setup() {
	DOCS=$FLMEM_TESTS/../docs
}

@test "the alert rules are right, and do what their tests say" {
	requires promtool
	run_command promtool check rules "$DOCS/prometheus/flmem.rules.yml"
	assert_status 0
	run_command promtool test rules "$DOCS/prometheus/flmem.rules.test.yml"
	assert_status 0
}

@test "rules and dashboard name only metrics that there are" {
	requires /usr/bin/python3
	run_command python - "$DOCS" <<-'END'
		import json, re, sys
		docs = sys.argv[1]
		known = set(re.findall(r"^\| `(\w+)` \|", open(docs + "/metrics.md").read(), re.M))
		dashboard = json.load(open(docs + "/grafana/flmem.json"))
		texts = [t["expr"] for p in dashboard["panels"] for t in p["targets"]]
		texts += [v["query"]["query"] for v in dashboard["templating"]["list"]
		          if v["type"] == "query"]
		rules = open(docs + "/prometheus/flmem.rules.yml").read()
		texts += re.findall(r"expr:(.*?)(?:for|labels):", rules, re.S)
		assert len(known) > 20 and len(texts) > 20
		# The label of the verdict has the name of its metric.
		used = {name for text in texts for name in re.findall(r"\b(?:flmem|process)_\w+", text)}
		assert len(used) > 10, used
		print(" ".join(sorted(used - known)))
	END
	assert_status 0
	[ -z "$output" ] || fail "no such metric: $output"
}

@test "the configurations in the guide are ones" {
	requires promtool /usr/bin/python3
	run_command python - "$DOCS/guides/prometheus.md" "$BATS_TEST_TMPDIR" <<-'END'
		import re, sys
		blocks = re.findall(r"^```yaml\n(.*?)^```", open(sys.argv[1]).read(), re.S | re.M)
		blocks = [b for b in blocks if "scrape_configs" in b]
		for number, block in enumerate(blocks):
		    # The rules are where the reader has put them.
		    block = block.replace("/etc/prometheus/flmem.rules.yml", "")
		    block = block.replace("rule_files:\n  - \n", "")
		    # Debian builds Prometheus without this part.
		    block = block.replace("kubernetes_sd_configs:\n      - role: pod",
		                          "static_configs: []")
		    open(f"{sys.argv[2]}/{number}.yml", "w").write(block)
		print(len(blocks))
	END
	assert_status 0
	[ "$output" -eq 3 ]
	local file
	for file in "$BATS_TEST_TMPDIR"/*.yml; do
		run_command promtool check config --syntax-only "$file"
		assert_status 0
	done
}

@test "the files for service discovery that the guide writes are right" {
	requires promtool /usr/bin/python3
	python -c '
import re, sys
text = re.search(r"^```sh\n(.*?)^nohup", open(sys.argv[1]).read(), re.S | re.M)[1]
print(text.replace("/shared/prometheus/flmem", sys.argv[2]))' \
		"$DOCS/guides/prometheus.md" "$BATS_TEST_TMPDIR" >"$BATS_TEST_TMPDIR/prolog"
	SLURM_JOB_ID=17 sh -eu "$BATS_TEST_TMPDIR/prolog"
	local written=("$BATS_TEST_TMPDIR"/17-*)
	[ "${#written[@]}" -eq 1 ]
	run_command python -c '
import json, sys
(group,) = json.load(open(sys.argv[1]))
print(group["labels"]["slurm_job"], group["targets"][0].rsplit(":", 1)[1])' "${written[0]}"
	[ "$output" = "17 9477" ]
}
