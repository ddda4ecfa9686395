// --weights: float weights of products as integers of few bits, and what that costs.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "fusion/pipeline.h"
#include "tools/cli/console.h"
#include "tools/cli/options.h"

namespace sinter::tools {

/// As the command line has them.
struct WeightTexts {
  std::string weights = "model";  // model, or int8 or int4 with ":group=N", ":asymmetric", ..
  std::vector<std::string> keep;
  std::vector<std::string> calibration;  // files of samples
  double max_layer_error = 0;            // 0: any
};

void add_weight_options(Command& verb, WeightTexts& texts);
/// Throws Error(kUsage) saying what --weights takes.
fusion::WeightOptions parse_weights(const WeightTexts& texts);

/// What a plan of `plan_bytes` would have, had its layers kept their floats in the plan's own
/// precision. Types that the target has no products of quantised weights for are floats in it.
double bytes_without_rounding(const std::vector<fusion::QuantisedLayer>& layers,
                              fusion::Precision precision, const std::set<DType>& quantised_matmul,
                              double plan_bytes);

/// A row for each layer, and what all of them come to; and what was asked for in vain. Bytes of the
/// plan: before_rounding is bytes_without_rounding.
void print_layers(const std::vector<fusion::QuantisedLayer>& layers, double before_rounding,
                  double plan_bytes, const WeightTexts& texts, const Console& console);
nlohmann::ordered_json layers_to_json(const std::vector<fusion::QuantisedLayer>& layers);

}  // namespace sinter::tools
