// The front door of fusion: the passes, in order, and the driver that runs them.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace sinter::fusion {

/// What the passes may ask about the target.
struct TargetTraits {
  bool cuda = false;
  bool has_conv = false;  // a dedicated float32 convolution exists (CPU: oneDNN)
  bool has_integer_matmul = false;
  bool matmul_epilogue_gelu_erf = false;
  bool matmul_epilogue_gelu_tanh = false;
  bool matmul_epilogue_relu = true;
  bool matmul_epilogue_residual = true;
  // Convolutions and all around them with channels last: of float32, or of any float; and what is
  // a product or a sum over windows spelled as such, so that kernels of our own take it.
  bool conv_channels_last = false, conv_any_float = false, conv_as_kernels = false;
  // What the convolutions of family "conv" end with: a residual, and activations, by operator.
  bool conv_epilogue_residual = false;
  std::set<std::string, std::less<>> conv_epilogue_activations;
  bool attention = false;        // one kernel for attention in float16 and bfloat16
  bool horizontal = false;       // many small regions in one launch
  bool product_kernels = false;  // our own products, which any region may follow
};
TargetTraits cpu_traits();
TargetTraits cuda_traits();

enum class Precision { kModel, kFloat16, kBFloat16, kTf32 };

/// One decision about fusing two nodes, for --explain-fusion and --why.
struct Decision {
  std::string producer, consumer;  // printable names with origins
  bool fused = false;
  std::string reason;  // "fused: saves 1.5 MB", "no: 'MatMul_3' is a library call ..."
  std::vector<std::string> producer_origins, consumer_origins;  // ONNX nodes
  std::string pass;                                             // the driver notes it
  // What the cost model was asked about, for a typical shape; nothing if only legality decided:
  // bytes that are not moved if the two are one, launches not made, scalar operations repeated.
  double bytes = 0, launches = 0, operations = 0;
};

struct Context {
  TargetTraits target;
  bool fuse = true;  // false: --fuse=off, every operator its own kernel
  Precision precision = Precision::kModel;
  std::vector<Decision> decisions;
  std::vector<std::string> precision_notes;  // what was lowered, what was kept and why
};

struct Pass {
  std::string_view name;
  ir::Graph (*run)(const ir::Graph& graph, Context& context);
  bool only_when_fusing = false;  // left out under --fuse=off
};
/// Every pass, in order.
const std::vector<Pass>& pipeline();

struct PipelineOptions {
  std::set<std::string> disabled;  // --disable-pass
  std::string stop_after;          // --stop-after
  /// Called with each pass's name, before and after it.
  std::function<void(std::string_view pass, bool after, const ir::Graph&)> observe;
};
struct PassTime {
  std::string name;
  double milliseconds = 0;
  std::size_t nodes_before = 0, nodes_after = 0;
};
struct PipelineResult {
  ir::Graph graph;
  std::vector<PassTime> times;
};
/// Runs the pipeline; verifies the graph after every pass. Throws Error(kUsage) for an unknown pass
/// name in the options.
PipelineResult run_pipeline(const ir::Graph& graph, Context& context,
                            const PipelineOptions& options = {});

}  // namespace sinter::fusion
