# SPDX-License-Identifier: Apache-2.0
"""Faults in what keeps the updates of an exchange, and models that are written, whole."""
from faults import Fault

ANSWERS = "libcore/ops/exchange/answer_uploads.c"
UPLOADS = "libcore/ops/exchange/uploads.c"
SOURCE = "libcore/model/source.c"
LANES = "libcore/ops/exchange/lockstep_upload.c"
LOCKSTEP = "libcore/ops/exchange/lockstep.c"
COMBINE = "libcore/ops/exchange/lockstep_combine.c"
COMBINER = "libcore/ops/exchange/round_combiner.c"
PUBLISH = "libcore/ops/exchange/publish.c"
TRANSFER = "libcore/ops/exchange/upload_body.c"
PULL = "libcore/ops/exchange/client_pull.c"
TARGET = "libcore/ops/exchange/client_target.c"
NAMES = "libcore/model/pickle_names.c"
WRITER = "libcore/ops/exchange/client_writer.c"
SHARDS = "libcore/ops/aggregate/output_shards.c"
SHARED = "libcore/ops/aggregate/shared_call.c"
PART = "libcore/ops/aggregate/part_file.c"
CALL = "libcore/ops/aggregate/aggregate.c"
IO = "libcore/base/files/io.c"
CHOOSE = "libcore/ops/aggregate/choose.c"
RESULT = "libcore/ops/aggregate/result.c"
CLIPPED = "libcore/aggregate/norm_clipped_mean.c"
PASS = "libcore/ops/aggregate/run.c"
VERIFIED = "libcore/ops/exchange/verified_round.c"
SETTINGS = "libcore/ops/exchange/server_options.c"
CONNECTIONS = "libcore/serve/http_connections.c"
METADATA = "libcore/exchange/metadata.c"
UPDATE = "libcore/ops/exchange/update.c"
SPECIAL = "libcore/ops/exchange/special_updates.c"
LOCK = "pthread_mutex_lock(&connections->lock);"
LATE = "\n\t/* Not before: a span that begins while this waits for the lock would be in its future. */"
HTTP = "libcore/serve/http_server.c"

ANSWER = "libcore/ops/exchange/answers.c"
SPOOL = "libcore/exchange/spool.c"

FAULTS = (
    Fault("spool-lock-guessed", SPOOL, "if (errno == EWOULDBLOCK)", "if (1)", "the reason for a directory that cannot be locked",
          ("cli.exchange_mistakes/locks",)),
    Fault("full-spool-is-usage", SPOOL, "flmem_io_open_code(errno), errno,\n\t\t\t\t       \"cannot make",
          "FLMEM_EUSAGE, errno,\n\t\t\t\t       \"cannot make", "the exit status of a server on a full disk", ("cli.exchange_mistakes/locks",)),
    Fault("quota-is-500", ANSWER, " || sys_errno == EDQUOT", "", "507 for a quota that is used up", ("cli.exchange_attack/quota",)),
    Fault("part-name-unchecked", PART, "if (!has_its_name(part))\n\t\treturn flmem_part_file_report_lost",
          "if (0)\n\t\treturn flmem_part_file_report_lost", "not publishing what took the name of a part", ("cli.aggregate_concurrent/put",)),
    Fault("part-of-nobody-left", PART, "!part->ended && !is_name_taken(part)) {", "!part->ended && has_its_name(part)) {",
          "a journal whose part was published", ("cli.aggregate_mpi/a folder that another program",)),
    Fault("folder-name-unchecked", SHARDS, "if (!is_still_unfinished(shards, part))\n\t\treturn flmem_part_file_report_lost",
          "if (0)\n\t\treturn flmem_part_file_report_lost", "not publishing what took the name of a folder", ("cli.aggregate_concurrent/put",)),
    Fault("part-cut-unseen", PART, "if (!has_prepared_bytes(fd, offset + length))", "if (0)", "refusing a part that was cut while it is written",
          ("cli.aggregate_concurrent/cut",)),
    Fault("part-cut-published", PART, "if (!has_prepared_bytes(part->fd, part->bytes))", "if (0)", "not publishing a part that was cut",
          ("cli.aggregate_concurrent/cut",)),
    Fault("shard-cut-published", SHARDS, "if (!rc && !have_sizes(shards))", "if (0)", "not publishing a shard that was cut",
          ("cli.aggregate_concurrent/cut",)),
    Fault("pull-cut-unseen", WRITER, "if (is_part_cut(writer))", "if (0)", "refusing a part that was cut while it is received",
          ("cli.exchange_power/cut",)),
    Fault("pull-cut-kept", TARGET, "(uint64_t)target->part.st_size != target->file->bytes", "0", "not keeping a part that was cut",
          ("cli.exchange_power/cut",)),
    Fault("gradient-unchecked", NAMES, "if (!has_gradient_arguments(pickle, arguments, 4, tensor->dtype))", "if (0)",
          "refusing a tensor that PyTorch refuses", ("cli.aggregate_traps/elements",)),
    Fault("parameter-unchecked", NAMES, "!has_gradient_arguments(pickle, arguments, 1,", "0 && !has_gradient_arguments(pickle, arguments, 1,",
          "refusing a parameter that PyTorch refuses", ("cli.aggregate_traps/elements",)),
    Fault("gradient-of-integer", NAMES, "(!required->number || can_have_gradient(dtype))", "1",
          "refusing a gradient of integers", ("cli.aggregate_traps/elements",)),
    Fault("storage-more", NAMES, "flmem_pickle_element(pickle, &tuple, 5)", "0", "refusing a storage that PyTorch refuses",
          ("cli.aggregate_traps/elements",)),
    Fault("metadata-twice", "libcore/model/safetensors.c", "\theader->noted = true;\n", "", "refusing two of __metadata__", ("unit.test_model",)),
    Fault("number-of-no-python", "libcore/model/npz.c", "(**at == '0' && (*at)[1] >= '1'", "(0 && (*at)[1] >= '1'",
          "refusing shapes that NumPy refuses", ("cli.aggregate_traps/otherwise",)),
    Fault("moved-folder-unseen", PART, "int rc = flmem_file_place_check(&part->place, err);", "int rc = 0;",
          "not reporting an output that is elsewhere", ("cli.aggregate_concurrent/moved",)),
    Fault("moved-pull-unseen", PULL, "rc = check_output_place(pull, err);", "rc = 0;",
          "not reporting a model that is elsewhere", ("cli.exchange_power/moved",)),
    Fault("part-of-other-user", TARGET, "&& status->st_uid == geteuid()", "", "refusing a part of another user",
          ("cli.exchange_client/files of others",)),
    Fault("lost-records-left", UPLOADS, "return ftruncate(fd, (off_t)(count * FLMEM_UPLOAD_JOURNAL_BYTES)) < 0 ? -errno : 0;", "return 0;",
          "going on behind what a power failure took", ("cli.exchange_power/power",)),
    Fault("chunked-above-limit", TRANSFER, "length > most - (transfer->at - transfer->begin)", "0", "the limit of a body without a length",
          ("cli.exchange/offsets",)),
    Fault("late-uploads-left", UPLOADS, "} else if (!u->writer && !u->checking) {", "} else if (0) {", "removing what a round did not wait for",
          ("cli.exchange/two rounds",)),
    Fault("escape-like-name", "libcore/report/json.c", "flmem_buf_puts(&exact, \"\\\\x5c\")", "flmem_buf_putc(&exact, *p)",
          "different names in JSON", ("cli.aggregate_inspect/different",)),
    Fault("only-origin-form", "libcore/serve/microhttpd.c", "if (strncasecmp(url,", "if (0 && strncasecmp(url,", "requests with a whole address",
          ("cli.exchange_attack/NUL", "cli.listen/nothing")),
    Fault("pull-name-unchecked", TARGET, "if (!is_part_in_place(target, &names))", "if (0)", "not keeping what took the name of a part",
          ("cli.exchange_attack/put",)),
    Fault("skips-nobody", CHOOSE, "if (rc || !call->run.found_special)", "if (1)", "the failure of a result that no skipped input explains",
          ("cli.aggregate_leftovers/infinite",)),
    Fault("state-not-compared", PASS, "is_intact(worker, chunk) && is_state_intact(worker, chunk)", "is_intact(worker, chunk)",
          "comparing a state that is continued", ("cli.aggregate_leftovers/damaged",)),
    Fault("differs-elsewhere", "libcore/ops/aggregate/block.c", "span->begin + offset, shown", "span->begin, shown",
          "the element from which integers differ", ("cli.aggregate/equal",)),
    Fault("failed-record-left", UPLOADS, "\t\t(void)!ftruncate(fd, before.st_size);", "\t\t;",
          "no record of what was not confirmed", ("cli.exchange_attack/record",)),
    Fault("short-by-nothing", PART, " || !missing)", ")", "the message for space that a file does not get", ("cli.aggregate_leftovers/short",)),
    Fault("file-refuses-update", UPDATE, "if (!is_update_settled(x, key))\n\t\treturn refuse_update",
          "if (1)\n\t\treturn refuse_update", "keeping an update beside a refused file", ("cli.exchange_attack/wrong",)),
    Fault("gone-is-failed", TRANSFER, "if (transfer->error && !flmem_upload_is_gone(transfer->x, transfer->id)) {",
          "if (transfer->error) {", "the reason for an upload that was removed meanwhile", ("cli.exchange_attack/meanwhile",)),
    Fault("special-ends-exchange", SPECIAL, "!= FLMEM_NAN_SKIP_CLIENT || can_spare_one(x))", "!= FLMEM_NAN_SKIP_CLIENT || 1)",
          "refusing a NaN that the algorithm cannot spare", ("cli.exchange_attack/NaN",)),
    Fault("special-always-refused", SPECIAL, "finite < x->quorum - x->needed", "finite < 0 * x->quorum",
          "leaving out a NaN that can be spared", ("cli.exchange_attack/spare",)),
    Fault("special-others-unread", SPECIAL, "while (!can_spare_one(x) && read_another(x))", "while (0 && read_another(x))",
          "reading other updates before a NaN is refused", ("cli.exchange_attack/finite",)),
    Fault("special-lost-at-restart", UPDATE, "update.values == FLMEM_VALUES_SPECIAL && x->recovering", "0",
          "keeping a NaN that counted before a kill", ("cli.exchange_attack/finite",)),
    Fault("unflushed-stays-placed", UPDATE, "\tdisplace_file(x, id, record, client);\n", "\t;\n",
          "sending an update again whose folder could not be flushed", ("cli.exchange_attack/flushed",)),
    Fault("hostile-of-all", CHOOSE, "combination->hostile = call->request->hostile;", ";",
          "defaults of the inputs that are left", ("cli.aggregate_algorithms/krum",)),
    Fault("folder-not-flushed", "libcore/base/files/file_place.c", "\treturn -errno;\n}\n\nint flmem_file_place_flush", "\treturn 0;\n}\n\nint flmem_file_place_flush",
          "a folder that cannot be flushed", ("cli.aggregate_leftovers/flushed",)),
    Fault("empty-journal-left", PART, "part->journal >= 0 && !part->ended", "0", "removing an empty journal", ("cli.aggregate_leftovers/refused",)),
    Fault("journal-of-others-joined", PART, "if (!flmem_journal_is_own(part->journal))", "if (0)",
          "no part beside a journal of others", ("cli.aggregate_leftovers/refused",)),
    Fault("last-journal-left", PART, "\tunlinkat(part.place.directory, part.journal_name, 0);", "\t(void)0;",
          "removing what a kill at the last step left", ("cli.aggregate_leftovers/last",)),
    Fault("end-cut", "libcore/base/text/fit.c", "if (part.length <= QUOTED_MIN) {", "if (1) {",
          "leaving out the middle of names only", ("unit.test_error",)),
    Fault("deleted-while-joining", ANSWERS, "!upload->counted && !flmem_lockstep_holds(x, upload)",
          "!upload->counted", "keeping an update that joined its round", ("cli.exchange_lockstep/joins",)),
    Fault("combined-not-skipped", COMBINE, "\tlane->base = offset;\n\tpthread_cond_broadcast", "\tpthread_cond_broadcast",
          "going on behind a chunk that was lost", ("cli.exchange_lockstep/lost",)),
    Fault("lane-not-replaced", LOCKSTEP, "if (x->gathered || u->writer || u->checking)", "if (1)",
          "a killed client beginning again", ("cli.exchange_lockstep/another",)),
    Fault("waits-as-idle", LANES, "flmem_http_request_wait(transfer->request, true);", ";",
          "clients that wait for others", ("cli.exchange_lockstep/idle",)),
    Fault("unchecked-refused", LANES, "flmem_update_can_pass(&transfer->error) ? 503 : 422", "422",
          "updates that cannot be checked now", ("cli.exchange_attack/checked",)),
    Fault("unchecked-confirmed", TRANSFER, "if (status >= 500)", "if (0)",
          "not confirming what was not checked", ("cli.exchange_attack/checked",)),
    Fault("confirmed-while-checked", UPLOADS, "return upload->offset == upload->record.length &&", "return 0 &&",
          "not confirming what is still being checked", ("cli.exchange_attack/confirmed",)),
    Fault("unread-is-damaged", SOURCE, "*source->error = errno;", ";",
          "keeping an update that cannot be read now", ("unit.test_model",)),
    Fault("journal-not-flushed", PART, "if (!rc && fdatasync(part->journal) < 0)\n\t\trc = -errno;\n\tif (rc)\n"
          "\t\treturn flmem_error_set(err, FLMEM_EFAILED, -rc, \"cannot write '%s.part.journal'\",\n"
          "\t\t\t\t       part->place.path);\n\t/*", "if (rc)\n"
          "\t\treturn flmem_error_set(err, FLMEM_EFAILED, -rc, \"cannot write '%s.part.journal'\",\n"
          "\t\t\t\t       part->place.path);\n\t/*",
          "going on after a failure of the power", ("cli.aggregate/journal",)),
    Fault("failed-is-late", LANES, "if (x->phase == FLMEM_PHASE_FAILED)", "if (0)",
          "the reason for clients that wait for others", ("cli.exchange_lockstep/deadline",)),
    Fault("fewer-inputs", COMBINER, "return count && x->update_count == count;", "return count;",
          "combining all updates of the round", ("cli.exchange_mistakes/damaged",)),
    Fault("cut-model-served", PUBLISH, "return newest ? check_published(x, &x->published[0], err) : 0;", "return 0;",
          "noticing a published model that was cut", ("cli.exchange_mistakes/damaged",)),
    Fault("base-not-checked", PUBLISH, "i < x->model.file_count && !x->round", "0",
          "steps from the model that was served", ("cli.exchange_mistakes/base",)),
    Fault("ambiguous-fields", HTTP, "fields.lengths + fields.codings <= 1", "1",
          "requests of which a proxy sees another end", ("cli.exchange_attack/ambiguous",)),
    Fault("ambiguous-names", HTTP, "fields->malformed |= !is_field(name, value);", ";",
          "headers that a proxy takes for others", ("cli.exchange_attack/ambiguous",)),
    Fault("ambiguous-not-closed", HTTP, "return queue_answer(request, request->ambiguous);",
          "return queue_answer(request, false);",
          "not reading on behind an ambiguous request", ("cli.exchange_attack/ambiguous",)),
    Fault("pulls-together", PULL, "pull->index.count > 1 ? LOCK_EX : LOCK_SH", "LOCK_SH",
          "complete files of a pull that is not over", ("cli.exchange_client/two",)),
    Fault("foreign-part-emptied", TARGET, "if (fstat(target->fd, &part) || !part.st_size)", "if (1)",
          "files of other programs with the name of a part", ("cli.exchange_client/unfinished",)),
    Fault("linked-part-emptied", TARGET, "if (fd < 0 || is_left_by_user(&status))", "if (1)",
          "files that have the name of a part as another one", ("cli.exchange_client/unfinished",)),
    Fault("finished-shards-overwritten", SHARDS, "if (!rc && !is_still_unfinished(shards, output->part))", "if (0)",
          "shards that another process has just completed", ("cli.aggregate_shards/waits for the lock",)),
    Fault("part-without-journal", SHARDS, "is_just_begun(shards) || ", "",
          "going on after a kill before the journal", ("cli.aggregate_shards/folders of others",)),
    Fault("finishing-writer-unseen", PART, "if (flock(*ret_fd,", "if (flags != O_APPEND && flock(*ret_fd,",
          "a writer that has renamed its part, but not its folder", ("cli.aggregate_concurrent/shards",)),
    Fault("no-locks-is-another", PART, "if (sys_errno == EWOULDBLOCK)", "if (1)",
          "file systems without locks", ("cli.aggregate_concurrent/without locks",)),
    Fault("lack-is-usage", IO, "if (sys_errno == failures[i])", "if (0 && sys_errno == failures[i])",
          "failures of the system as such", ("cli.aggregate_shards/too few descriptors",)),
    Fault("overtaken-round", CALL, "rc = flmem_state_check(&call->state, err);", "(void)flmem_state_check;",
          "the state of a round that another process has just written", ("cli.aggregate_concurrent/overtaken",)),
    Fault("infinite-median", CLIPPED, "if (isinf(norm))", "if (0)",
          "updates with an infinite norm, where that is the median", ("cli.aggregate_algorithms/zero or infinite",)),
    Fault("zero-is-infinite", CHOOSE, "bool scaled = algorithm->scaled_out", "bool scaled = 0 && algorithm->scaled_out",
          "the reason for an update that is scaled to 0", ("cli.aggregate_algorithms/zero or infinite",)),
    Fault("infinite-distances", CHOOSE, "!flmem_choice_is_possible(", "0 && !flmem_choice_is_possible(",
          "not choosing among infinite distances", ("cli.aggregate_algorithms/zero or infinite",)),
    Fault("repeated-input-unseen", RESULT, "find_repeated(call, ret_result);", "(void)find_repeated;",
          "a note about an input that is given twice", ("cli.aggregate_traps/given twice",)),
    Fault("other-shards-published", SHARDS, "if (is_shard_name(entry->d_name) && ", "if (0 && ",
          "a model without the shards of a killed run", ("cli.aggregate_shards/of another size",)),
    Fault("whole-shards-cut", SHARED, "? near : at;", "? at : at;",
          "processes that write whole shards", ("unit.test_shared_call",)),
    Fault("measured-by-shards", SHARED, "if (kind == FLMEM_RUN_MEASURE)", "if (0)",
          "norms that do not depend on the processes", ("unit.test_shared_call",)),
    Fault("measured-by-the-first", SHARED, "for (unsigned r = 0; r < call->ranks.count; r++)",
          "for (unsigned r = 0; r < 1; r++)",
          "distances of whole models", ("cli.aggregate_mpi/norms and distances",)),
    Fault("empty-part-has-a-chunk", PASS, "begin < end ? (size_t)", "true ? (size_t)",
          "more processes than chunks", ("unit.test_shared_call",)),
    Fault("shards-of-other-sizes", SHARED,
          "call->request->shard_bytes, call->samples}", "0, call->samples}",
          "processes that agree about --shard-size", ("cli.aggregate_mpi/leaves no shard",)),
    Fault("published-by-the-first", SHARED,
          "rc = flmem_shared_call_agree(call, rc, err);\n\tif (!rc)\n\t\tjoin_parts", "if (!rc)\n\t\tjoin_parts",
          "the first process waiting for the shards of the others", ("cli.aggregate_mpi/leaves no shard",)),
    Fault("verified-fractions", VERIFIED, "m->weight == floor(m->weight) && ", "",
          "weights with an exact mean", ("cli.exchange_verified/not named",)),
    Fault("verified-weights-above", VERIFIED, " && m->weight <= (double)most", "",
          "weights with an exact sum", ("cli.exchange_verified/not named",)),
    Fault("verified-with-others", SETTINGS, "i < o->verify_count", "0 && i < o->verify_count",
          "the models that a round is compared with", ("cli.exchange_verified/other models",)),
    Fault("verified-room", ANSWERS, "flmem_exchange_verifies(x) ? 0 : x->model_bytes", "x->model_bytes",
          "models larger than the disk", ("cli.exchange_verified/does not hold",)),
    Fault("generated-not-stopped", PUBLISH, "if (is_stopped(x))", "if (0)",
          "the end of a server that makes a large model", ("cli.exchange_verified/a signal",), slow=True),
    Fault("swept-before-it-began", CONNECTIONS, f"{LOCK}{LATE}\n\tnow_us = flmem_clock_us();",
          f"now_us = flmem_clock_us();\n\t{LOCK}",
          "requests that begin during a sweep", ("unit.test_http_connections",)),
    Fault("weights-far-apart", METADATA, "*ret_weight >= WEIGHT_MIN", "*ret_weight > 0",
          "an exchange that no weight of a client ends", ("cli.exchange_attack/no weight",)),
    Fault("update-ties-others", UPDATE, "if (!rc && x->needs_checkpoint)\n\t\trc = check_tied", "if (0)\n\t\trc = check_tied",
          "an exchange that no tied tensors of a client end", ("cli.exchange_attack/ties other",)),
)
