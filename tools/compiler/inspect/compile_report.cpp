// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/inspect/compile_report.h"

namespace sinter::tools {

nlohmann::ordered_json to_json(const PassResult& pass) {
  return {{"pass", pass.name},
          {"ms", pass.milliseconds},
          {"nodes_before", pass.nodes_before},
          {"nodes_after", pass.nodes_after}};
}

nlohmann::ordered_json to_json(const LayerResult& layer) {
  return {{"layer", layer.name},
          {"n", layer.n},
          {"k", layer.k},
          {"bits", layer.bits},
          {"type", layer.type},
          {"weight_error", layer.weight_error},
          {"output_error", layer.output_error},
          {"bytes_before", layer.bytes_before},
          {"bytes_after", layer.bytes_after},
          {"wider", layer.wider},
          {"kept", layer.kept}};
}

}  // namespace sinter::tools
