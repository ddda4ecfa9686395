// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/models/embedder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

#include "ir/tensor.h"
#include "runtime/format_error.h"

namespace sinter::tools {
namespace {

enum class Input : std::uint8_t { kIds, kMask, kTypes, kPositions };
constexpr std::array<std::string_view, 4> kInputs = {"input_ids", "attention_mask",
                                                     "token_type_ids", "position_ids"};

/// The output that vectors come from: one for each text before one for each token, but for what
/// poolers make, which was trained for something else.
std::optional<std::size_t> find_output(const Plan& plan) {
  std::optional<std::size_t> best;
  int least = 3;
  for (std::size_t i = 0; i < plan.outputs().size(); ++i) {
    const BindingInfo& output = plan.outputs()[i];
    const std::size_t rank = output.shape.size();
    if ((rank != 2 && rank != 3) || !is_arithmetic_float(output.dtype)) continue;
    const int order = rank == 3 ? 1 : output.name == "pooler_output" ? 2 : 0;
    if (order < least) {
      least = order;
      best = i;
    }
  }
  return best;
}

std::int64_t value_of(Input input, const EncoderText& text, std::size_t token) {
  switch (input) {
    case Input::kIds: return text.ids[token];
    case Input::kMask: return 1;
    case Input::kTypes: return text.second > 0 && token >= text.second ? 1 : 0;
    case Input::kPositions: return static_cast<std::int64_t>(token);
  }
  return 0;
}

float float_at(const OwnedTensor& tensor, std::size_t i) {
  return static_cast<float>(
      ir::load_as_double(tensor.dtype, tensor.data.data() + i * size_of(tensor.dtype)));
}

void put(OwnedTensor& tensor, std::size_t i, std::int64_t value) {
  if (tensor.dtype == DType::kInt64) {
    std::memcpy(tensor.data.data() + i * sizeof value, &value, sizeof value);
  } else {
    const auto narrow = static_cast<std::int32_t>(value);
    std::memcpy(tensor.data.data() + i * sizeof narrow, &narrow, sizeof narrow);
  }
}

void normalize(std::vector<float>& vector) {
  double square = 0;
  for (const float x : vector) square += double{x} * x;
  const auto factor = static_cast<float>(square > 0 ? 1 / std::sqrt(square) : 0);
  for (float& x : vector) x *= factor;
}

}  // namespace

bool Embedder::takes(const Plan& plan) {
  const auto fits = [](const BindingInfo& input) {
    return std::ranges::find(kInputs, input.name) != kInputs.end() && input.shape.size() == 2 &&
           (input.dtype == DType::kInt64 || input.dtype == DType::kInt32);
  };
  return plan.states().empty() && std::ranges::all_of(plan.inputs(), fits) &&
         std::ranges::find(plan.inputs(), kInputs[0], &BindingInfo::name) != plan.inputs().end() &&
         find_output(plan).has_value();
}

Embedder::Embedder(TensorModel& tensors, Pooling pooling, std::vector<DenseLayer> dense)
    : tensors_(tensors),
      pooling_(pooling),
      dense_(std::move(dense)),
      output_(find_output(tensors.plan()).value()) {
  most_tokens_ = INT64_MAX;
  for (const BindingInfo& input : tensors.plan().inputs())
    most_tokens_ = std::min(most_tokens_, input.shape[1].max);
  const BindingInfo& output = tensors.plan().outputs()[output_];
  ranks_ = output.shape.size() == 2 &&
           (output.name == "logits" || output.name == "scores" || output.shape[1].max == 1);
}

std::vector<std::vector<float>> Embedder::embed(const std::vector<EncoderText>& texts,
                                                bool normalizes) {
  auto vectors = run(texts);
  if (normalizes)
    for (auto& vector : vectors) normalize(vector);
  return vectors;
}

std::vector<std::vector<float>> Embedder::rank(const std::vector<EncoderText>& texts) {
  return run(texts);
}

std::vector<std::vector<float>> Embedder::run(const std::vector<EncoderText>& texts) {
  std::vector<std::size_t> order(texts.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return texts[i].ids.size(); });
  for (const std::size_t i : order) {
    if (texts[i].ids.empty()) throw usage_error("text {} has no tokens", i);
    if (std::ssize(texts[i].ids) > most_tokens_)
      throw usage_error("text {} has {} tokens, the model takes {} at most", i, texts[i].ids.size(),
                        most_tokens_);
  }
  std::vector<std::vector<float>> result(texts.size());
  for (std::size_t first = 0; first < order.size();) {
    std::vector<const EncoderText*> alike;
    std::int64_t elements = 0;
    std::size_t end = first;
    for (; end < order.size() && std::ssize(alike) < tensors_.batch_rows(); ++end) {
      const EncoderText& text = texts[order[end]];
      const auto length = std::ssize(text.ids);
      elements += length;
      // Without a mask a model would read what is padded.
      const bool differs = end > first && text.ids.size() != alike[0]->ids.size();
      if (differs &&
          (!tensors_.pads() || TensorModel::wastes(std::ssize(alike) + 1, length, elements)))
        break;
      alike.push_back(&text);
    }
    auto vectors = run_alike(alike);
    for (std::size_t i = first; i < end; ++i) result[order[i]] = std::move(vectors[i - first]);
    first = end;
  }
  return result;
}

std::vector<std::vector<float>> Embedder::run_alike(const std::vector<const EncoderText*>& texts) {
  const std::size_t columns = texts.back()->ids.size();  // they are sorted
  std::map<std::string, OwnedTensor> inputs;
  for (const BindingInfo& input : tensors_.plan().inputs()) {
    OwnedTensor& tensor = inputs[input.name];
    tensor = {input.dtype, {std::ssize(texts), static_cast<std::int64_t>(columns)}, {}};
    tensor.data.resize(texts.size() * columns * size_of(input.dtype));
    const auto kind = static_cast<Input>(std::ranges::find(kInputs, input.name) - kInputs.begin());
    for (std::size_t r = 0; r < texts.size(); ++r)
      for (std::size_t c = 0; c < texts[r]->ids.size(); ++c)
        put(tensor, r * columns + c, value_of(kind, *texts[r], c));
  }
  const OwnedTensor output = std::move(tensors_.infer(inputs).at(output_));
  const bool of_tokens = output.shape.size() == 3;
  const auto size = static_cast<std::size_t>(output.shape.back());
  std::vector<std::vector<float>> vectors(texts.size());
  std::vector<float> rows;
  for (std::size_t r = 0; r < texts.size(); ++r) {
    rows.resize((of_tokens ? texts[r]->ids.size() : 1) * size);
    const std::size_t first = r * (of_tokens ? columns : 1) * size;
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = float_at(output, first + i);
    if (!of_tokens) {
      vectors[r] = rows;
      continue;
    }
    vectors[r] = pooled(rows, size, pooling_, texts[r]->skipped);
    for (const DenseLayer& layer : dense_) vectors[r] = layer.apply(vectors[r]);
  }
  return vectors;
}

}  // namespace sinter::tools
