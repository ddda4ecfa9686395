// SPDX-License-Identifier: Apache-2.0
#include "tools/python/src/results.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "tools/python/src/struct.h"
#include "tools/python/src/text.h"

namespace sinter::python {

// Overloads for nested types; static, because all must be visible beside those of the header.

namespace nb = nanobind;

template <typename T>
static nb::list list_of(const std::vector<T>& values);

/// Defines to_python for a struct whose members are convertible.
#define SINTER_PLAIN(type, ...)                  \
  static nb::dict to_python(const type& value) { \
    nb::dict d;                                  \
    SINTER_ITEMS(value, __VA_ARGS__);            \
    return d;                                    \
  }

static nb::dict to_python(const OutputAccuracy& value) {
  nb::dict d;
  SINTER_ITEMS(value, output, relative_error, largest_difference, max_error);
  d["ok"] = value.ok();
  return d;
}

SINTER_PLAIN(LayerResult, name, n, k, bits, type, weight_error, output_error, bytes_before,
             bytes_after, wider, kept)
SINTER_PLAIN(StateResult, input, output, in_place, why_copied)
SINTER_PLAIN(CacheResult, input, output, scales, model_type, type, shape, error, bytes_before,
             bytes_after)
SINTER_PLAIN(PassResult, name, milliseconds, nodes_before, nodes_after)
SINTER_PLAIN(FusionDecision, producer, consumer, fused, reason)
SINTER_PLAIN(LayoutDecision, node, bytes, other_bytes, reason)
SINTER_PLAIN(TunedKernelResult, name, uses, rule, chosen, rule_us, chosen_us, tried, candidates,
             problem)
SINTER_PLAIN(TunedLibraryCall, environment, problem, chosen, microseconds)

static nb::dict to_python(const TuningResult& value) {
  nb::dict d;
  SINTER_ITEMS(value, gpu, versions, file);
  d["kernels"] = list_of(value.kernels);
  d["libraries"] = list_of(value.libraries);
  d["kernels_from_file"] = value.kernels_from_file;
  return d;
}

SINTER_PLAIN(Statistics, min, mean, median, p10, p90, p95, p99, max, count)

static nb::dict to_python(const CompareVariant& value) {
  nb::dict d;
  d["name"] = value.name;
  d["compute"] = to_python(value.compute);
  d["wall"] = to_python(value.wall);
  SINTER_ITEMS(value, speed_up, launches, bytes_moved, plan_bytes, weight_bytes, memory_bytes);
  return d;
}

static nb::dict to_python(const StepProfile& value) {
  nb::dict d;
  SINTER_ITEMS(value.time, name, microseconds, bytes, flops, how, arithmetic, origins, stream,
               waits);
  d["bound"] = std::string(to_string(value.bound));
  SINTER_ITEMS(value, memory_us, compute_us, launch_us);
  d["launches"] = value.launches();
  d["bandwidth"] = value.bandwidth();
  d["operations_per_second"] = value.operations_per_second();
  d["share_of_bound"] = value.share_of_bound();
  d["is_slow"] = value.is_slow();
  d["faster_form"] = value.faster_form;
  return d;
}

SINTER_PLAIN(MachineRates, machine, copy_bytes_per_second, copy_bytes, empty_step_microseconds,
             operations_per_second, operations_from, timing)

template <typename T>
static nb::list list_of(const std::vector<T>& values) {
  nb::list list;
  for (const T& value : values) list.append(to_python(value));
  return list;
}

nb::dict to_python(const Diagnostic& value) {
  nb::dict d;
  d["severity"] = std::string(to_string(value.severity));
  SINTER_ITEMS(value, code, message, node, op, shapes, hint);
  return d;
}

nb::dict to_python(const Accuracy& value) {
  nb::dict d;
  d["outputs"] = list_of(value.outputs);
  SINTER_ITEMS(value, shapes, source, same_bits);
  d["ok"] = value.ok();
  return d;
}

nb::dict to_python(const CompareResult& value) {
  nb::dict d;
  SINTER_ITEMS(value, target, shapes);
  d["variants"] = list_of(value.variants);
  SINTER_ITEMS(value, difference, weights_error);
  d["diagnostics"] = list_of(value.diagnostics);
  return d;
}

nb::dict to_python(const ProfileReport& value) {
  nb::dict d;
  SINTER_ITEMS(value, target, shapes, exact_products);
  d["rates"] = to_python(value.rates);
  d["steps"] = list_of(value.steps);
  SINTER_ITEMS(value, whole_us, steps_us, memory_us, compute_us, launch_us, gaps_us, overlap_us,
               launches, bytes, flops);
  SINTER_ITEMS(value.transfers, host_to_device, device_to_host);
  return d;
}

nb::dict to_python(const CompileResult& value) {
  nb::dict d;
  d["ok"] = value.ok();
  SINTER_ITEMS(value, plan_bytes, target);
  d["diagnostics"] = list_of(value.diagnostics);
  SINTER_ITEMS(value, nodes_imported, steps, kernels, kernels_from_cache, import_ms, passes_ms,
               codegen_ms);
  d["passes"] = list_of(value.passes);
  d["precision_notes"] = value.precision_notes;
  d["layers"] = list_of(value.layers);
  d["bytes_without_rounding"] = value.bytes_without_rounding;
  d["states"] = list_of(value.states);
  d["caches"] = list_of(value.caches);
  d["decisions"] = list_of(value.decisions);
  d["layouts"] = list_of(value.layouts);
  d["accuracy"] = value.accuracy ? nb::object(to_python(*value.accuracy)) : nb::none();
  d["tuning"] = value.tuning ? nb::object(to_python(*value.tuning)) : nb::none();
  return d;
}

}  // namespace sinter::python
