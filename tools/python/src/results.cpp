#include "tools/python/src/results.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "tools/python/src/text.h"

namespace sinter::python {

// Overloads for what is a part of something: static, for all must be found beside those of the
// header.

namespace nb = nanobind;

template <typename T>
static nb::list list_of(const std::vector<T>& values);

static nb::dict to_python(const OutputAccuracy& value) {
  nb::dict d;
  d["output"] = value.output;
  d["relative_error"] = value.relative_error;
  d["largest_difference"] = value.largest_difference;
  d["max_error"] = value.max_error;
  d["ok"] = value.ok();
  return d;
}

static nb::dict to_python(const LayerResult& value) {
  nb::dict d;
  d["name"] = value.name;
  d["n"] = value.n;
  d["k"] = value.k;
  d["bits"] = value.bits;
  d["weight_error"] = value.weight_error;
  d["output_error"] = value.output_error;
  d["bytes_before"] = value.bytes_before;
  d["bytes_after"] = value.bytes_after;
  d["wider"] = value.wider;
  d["kept"] = value.kept;
  return d;
}

static nb::dict to_python(const StateResult& value) {
  nb::dict d;
  d["input"] = value.input;
  d["output"] = value.output;
  d["in_place"] = value.in_place;
  d["why_copied"] = value.why_copied;
  return d;
}

static nb::dict to_python(const PassResult& value) {
  nb::dict d;
  d["name"] = value.name;
  d["milliseconds"] = value.milliseconds;
  d["nodes_before"] = value.nodes_before;
  d["nodes_after"] = value.nodes_after;
  return d;
}

static nb::dict to_python(const FusionDecision& value) {
  nb::dict d;
  d["producer"] = value.producer;
  d["consumer"] = value.consumer;
  d["fused"] = value.fused;
  d["reason"] = value.reason;
  return d;
}

static nb::dict to_python(const TunedKernelResult& value) {
  nb::dict d;
  d["name"] = value.name;
  d["uses"] = value.uses;
  d["rule"] = value.rule;
  d["chosen"] = value.chosen;
  d["rule_us"] = value.rule_us;
  d["chosen_us"] = value.chosen_us;
  d["tried"] = value.tried;
  d["candidates"] = value.candidates;
  d["problem"] = value.problem;
  return d;
}

static nb::dict to_python(const TunedLibraryCall& value) {
  nb::dict d;
  d["environment"] = value.environment;
  d["problem"] = value.problem;
  d["chosen"] = value.chosen;
  d["microseconds"] = value.microseconds;
  return d;
}

static nb::dict to_python(const TuningResult& value) {
  nb::dict d;
  d["gpu"] = value.gpu;
  d["versions"] = value.versions;
  d["file"] = value.file;
  d["kernels"] = list_of(value.kernels);
  d["libraries"] = list_of(value.libraries);
  d["kernels_from_file"] = value.kernels_from_file;
  return d;
}

static nb::dict to_python(const Statistics& value) {
  nb::dict d;
  d["min"] = value.min;
  d["mean"] = value.mean;
  d["median"] = value.median;
  d["p10"] = value.p10;
  d["p90"] = value.p90;
  d["p95"] = value.p95;
  d["p99"] = value.p99;
  d["max"] = value.max;
  d["count"] = value.count;
  return d;
}

static nb::dict to_python(const CompareVariant& value) {
  nb::dict d;
  d["name"] = value.name;
  d["compute"] = to_python(value.compute);
  d["wall"] = to_python(value.wall);
  d["speed_up"] = value.speed_up;
  d["launches"] = value.launches;
  d["bytes_moved"] = value.bytes_moved;
  d["plan_bytes"] = value.plan_bytes;
  d["weight_bytes"] = value.weight_bytes;
  d["memory_bytes"] = value.memory_bytes;
  return d;
}

static nb::dict to_python(const StepProfile& value) {
  nb::dict d;
  d["name"] = value.time.name;
  d["microseconds"] = value.time.microseconds;
  d["bytes"] = value.time.bytes;
  d["flops"] = value.time.flops;
  d["how"] = value.time.how;
  d["arithmetic"] = value.time.arithmetic;
  d["origins"] = value.time.origins;
  d["bound"] = std::string(to_string(value.bound));
  d["memory_us"] = value.memory_us;
  d["compute_us"] = value.compute_us;
  d["launch_us"] = value.launch_us;
  d["launches"] = value.launches();
  d["bandwidth"] = value.bandwidth();
  d["operations_per_second"] = value.operations_per_second();
  d["share_of_bound"] = value.share_of_bound();
  return d;
}

static nb::dict to_python(const MachineRates& value) {
  nb::dict d;
  d["machine"] = value.machine;
  d["copy_bytes_per_second"] = value.copy_bytes_per_second;
  d["copy_bytes"] = value.copy_bytes;
  d["empty_step_microseconds"] = value.empty_step_microseconds;
  d["operations_per_second"] = value.operations_per_second;
  d["operations_from"] = value.operations_from;
  d["timing"] = value.timing;
  return d;
}

template <typename T>
static nb::list list_of(const std::vector<T>& values) {
  nb::list list;
  for (const T& value : values) list.append(to_python(value));
  return list;
}

nb::dict to_python(const Diagnostic& value) {
  nb::dict d;
  d["severity"] = std::string(to_string(value.severity));
  d["code"] = value.code;
  d["message"] = value.message;
  d["node"] = value.node;
  d["op"] = value.op;
  d["shapes"] = value.shapes;
  d["hint"] = value.hint;
  return d;
}

nb::dict to_python(const Accuracy& value) {
  nb::dict d;
  d["outputs"] = list_of(value.outputs);
  d["shapes"] = value.shapes;
  d["source"] = value.source;
  d["same_bits"] = value.same_bits;
  d["ok"] = value.ok();
  return d;
}

nb::dict to_python(const CompareResult& value) {
  nb::dict d;
  d["target"] = value.target;
  d["shapes"] = value.shapes;
  d["variants"] = list_of(value.variants);
  d["difference"] = value.difference;
  d["weights_error"] = value.weights_error;
  d["diagnostics"] = list_of(value.diagnostics);
  return d;
}

nb::dict to_python(const ProfileReport& value) {
  nb::dict d;
  d["target"] = value.target;
  d["shapes"] = value.shapes;
  d["rates"] = to_python(value.rates);
  d["steps"] = list_of(value.steps);
  d["whole_us"] = value.whole_us;
  d["steps_us"] = value.steps_us;
  d["memory_us"] = value.memory_us;
  d["compute_us"] = value.compute_us;
  d["launch_us"] = value.launch_us;
  d["gaps_us"] = value.gaps_us;
  d["overlap_us"] = value.overlap_us;
  d["launches"] = value.launches;
  d["bytes"] = value.bytes;
  d["flops"] = value.flops;
  return d;
}

nb::dict to_python(const CompileResult& value) {
  nb::dict d;
  d["ok"] = value.ok();
  d["plan_bytes"] = value.plan_bytes;
  d["target"] = value.target;
  d["diagnostics"] = list_of(value.diagnostics);
  d["nodes_imported"] = value.nodes_imported;
  d["steps"] = value.steps;
  d["kernels"] = value.kernels;
  d["kernels_from_cache"] = value.kernels_from_cache;
  d["import_ms"] = value.import_ms;
  d["passes_ms"] = value.passes_ms;
  d["codegen_ms"] = value.codegen_ms;
  d["passes"] = list_of(value.passes);
  d["precision_notes"] = value.precision_notes;
  d["layers"] = list_of(value.layers);
  d["bytes_without_rounding"] = value.bytes_without_rounding;
  d["states"] = list_of(value.states);
  d["decisions"] = list_of(value.decisions);
  d["accuracy"] = value.accuracy ? nb::object(to_python(*value.accuracy)) : nb::none();
  d["tuning"] = value.tuning ? nb::object(to_python(*value.tuning)) : nb::none();
  return d;
}

}  // namespace sinter::python
