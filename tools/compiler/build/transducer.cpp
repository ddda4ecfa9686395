// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/build/transducer.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/format_error.h"
#include "tools/compiler/build/log_mel.h"

namespace sinter::tools {
namespace {

using ir::Dim;
using ir::Graph;
using ir::GraphBuilder;
using ir::Ints;
using ir::Shape;
using ir::ValueId;

constexpr const char *kSignal = "audio_signal", *kLength = "length", *kFrame = "encoder_outputs",
                     *kTargets = "targets", *kTargetLength = "target_length",
                     *kPredicted = "decoder_outputs", *kOutputs = "outputs";
// NeMo's: 25 ms every 10 ms of sound at 16 kHz.
constexpr std::int64_t kRate = 16000, kWindow = 400, kTransform = 512, kHop = 160;
constexpr double kEmphasis = 0.97, kLeastPower = 1.0 / (1 << 24), kLeastDeviation = 1e-5;
constexpr std::int64_t kLeastFrames = 16, kMostFrames = 12000;
constexpr std::int64_t kMostOfFrame = 10;  // tokens, as in onnx-asr

std::optional<ValueId> input_of(const Graph& graph, std::string_view name) {
  for (const ValueId input : graph.inputs())
    if (graph.value(input).name == name) return input;
  return std::nullopt;
}

/// Operators at one builder.
class Terms {
 public:
  explicit Terms(GraphBuilder& builder) : b(builder) {}
  ValueId op(const char* name, std::vector<ValueId> inputs) {
    return b.add(name, std::move(inputs));
  }
  ValueId integer(std::int64_t value) {
    return b.scalar(DType::kInt64, static_cast<double>(value));
  }
  ValueId real(double value) { return b.scalar(DType::kFloat32, value); }
  ValueId size(const Dim& dim) { return b.add("Size", {}, {{"value", Shape{dim}}}); }
  ValueId iota(const Dim& count) {
    return b.add("Iota", {},
                 {{"shape", Shape{count}}, {"axis", std::int64_t{0}}, {"dtype", DType::kInt64}});
  }
  ValueId reshape(ValueId x, Shape shape) {
    return b.type(x).shape == shape ? x : b.add("Reshape", {x}, {{"shape", std::move(shape)}});
  }
  ValueId cast(ValueId x, DType to) {
    return b.type(x).dtype == to ? x : b.add("Cast", {x}, {{"to", to}});
  }
  ValueId slice(ValueId x, std::vector<Dim> starts, Shape shape) {
    const Ints steps(shape.size(), 1);
    return b.add("Slice", {x},
                 {{"starts", std::move(starts)}, {"steps", steps}, {"shape", std::move(shape)}});
  }
  ValueId reduce(const char* name, ValueId x, std::int64_t axis, bool keep) {
    return b.add(name, {x}, {{"axes", Ints{axis}}, {"keepdims", std::int64_t{keep}}});
  }
  ValueId filled(DType type, double value, const Shape& shape) {
    return b.add("Expand", {b.scalar(type, value)}, {{"shape", shape}});
  }
  GraphBuilder& b;
};

/// NeMo's spectra of sound with emphasised heights, each band with mean 0 and deviation 1 over the
/// frames in front of the last one, which is zeros: [1, bands, frames].
ValueId spectra(Terms t, ValueId audio, ValueId samples, const Dim& frames, std::int64_t bands) {
  const MelSizes sizes{bands, kWindow, kTransform, kHop, static_cast<double>(kRate), false};
  const Dim all = frames * Dim(kHop);
  const auto padded = [&](ValueId x, Shape begins, Shape ends) {
    return t.b.add("Pad", {x}, {{"begins", std::move(begins)}, {"ends", std::move(ends)}});
  };
  const ValueId before = t.slice(padded(audio, {0, 1}, {0, 0}), {Dim(0), Dim(0)}, Shape{1, all});
  ValueId x = t.op("Sub", {audio, t.op("Mul", {before, t.real(kEmphasis)})});
  x = t.op("Where", {t.op("Less", {t.iota(all), samples}), x, t.real(0)});
  // Frames have their middles at multiples of a hop.
  const std::int64_t front = kWindow / 2, rest = sizes.hops() * kHop - kHop - front;
  x = padded(x, {0, Dim(front)}, {0, Dim(rest)});
  x = t.reshape(x, {1, frames + Dim(sizes.hops() - 1), Dim(kHop)});
  x = mel_powers(t.b, x, frames, sizes);
  x = t.op("Log", {t.op("Add", {x, t.real(kLeastPower)})});
  const Dim count = frames - Dim(1);
  x = t.slice(x, {Dim(0), Dim(0), Dim(0)}, {1, count, Dim(bands)});
  const ValueId number = t.cast(t.size(count), DType::kFloat32);
  const ValueId mean = t.op("Div", {t.reduce("ReduceSum", x, 1, true), number});
  x = t.op("Sub", {x, mean});
  const ValueId variance = t.op("Div", {t.reduce("ReduceSum", t.op("Mul", {x, x}), 1, true),
                                        t.op("Sub", {number, t.real(1)})});
  x = t.op("Div", {x, t.op("Add", {t.op("Sqrt", {variance}), t.real(kLeastDeviation)})});
  x = padded(x, {0, 0, 0}, {0, 1, 0});
  return t.b.add("Transpose", {x}, {{"perm", Ints{0, 2, 1}}});
}

/// What the encoder gives.
struct Encoded {
  ValueId frames, length;  // [1, width, frames], i64 []
};

/// The graph's parts around one body of the loop.
class Transducer {
 public:
  Transducer(const Graph& encoder, std::span<const Graph> networks)
      : encoder_(encoder), networks_(networks), builder_(encoder.name()), t_(builder_) {
    for (const Graph& network : networks)
      for (const ValueId input : network.inputs())
        if (is_state(network, input)) states_.push_back(network.type(input));
    if (states_.empty())
      throw usage_error("--decoder: a transducer's prediction network has states, and it has none");
  }

  Graph run() {
    for (const auto& [symbol, range] : encoder_.ranges()) builder_.range(symbol, range);
    const Encoded encoded = encode();
    const ValueId blank = builder_.input("blank", {DType::kInt64, {}});
    const Dim most = builder_.type(encoded.frames).shape[2] * Dim(kMostOfFrame);
    // One more, for what is not written.
    const Shape all{most + Dim(1)};
    std::vector<ValueId> inputs{t_.integer(0), t_.op("Greater", {encoded.length, t_.integer(0)}),
                                t_.integer(0),  // frame
                                t_.integer(0),  // tokens in it
                                t_.integer(0),  // tokens
                                blank};         // the last token
    for (const ir::TensorType& type : states_)
      inputs.push_back(t_.filled(type.dtype, 0, type.shape));
    inputs.push_back(t_.filled(DType::kInt64, 0, all));
    inputs.push_back(t_.filled(DType::kInt64, 0, all));
    const auto count = static_cast<std::int64_t>(inputs.size()) - 1;
    const auto body = std::make_shared<const Graph>(loop_body(encoded, blank, most));
    // A larger one is refused by who runs the plan, and must not fail in a table's lookup.
    inputs[5] = t_.op("Min", {blank, t_.integer(choices_ - 1)});
    inputs.insert(inputs.end(), {encoded.frames, encoded.length, blank});
    std::vector<ValueId> after;
    {
      const GraphBuilder::OriginScope scope(builder_, {"transducer"});
      after = builder_.add_multi(
          "While", inputs,
          {{"trips", std::vector<Dim>{}}, {"states", count}, {"checked", std::int64_t{1}}}, body);
    }
    const std::size_t tokens = after.size() - 2;
    builder_.output("tokens", t_.slice(after[tokens], {Dim(0)}, {most}));
    builder_.output("frames", t_.slice(after[tokens + 1], {Dim(0)}, {most}));
    builder_.output("count", after[3]);
    builder_.output("encoded", encoded.length);
    builder_.output("choices", t_.integer(choices_));
    return builder_.finish();
  }

 private:
  static bool is_state(const Graph& network, ValueId input) {
    const std::string& name = network.value(input).name;
    return is_float(network.type(input).dtype) && name != kFrame && name != kPredicted;
  }

  Encoded encode() {
    const ValueId signal = *input_of(encoder_, kSignal);
    const Shape shape = encoder_.type(signal).shape;
    const Dim frames = shape[2];
    const ValueId audio = builder_.input("audio", {DType::kFloat32, {1, frames * Dim(kHop)}});
    const ValueId samples = builder_.input("samples", {DType::kInt64, {}});
    ValueId x, length;
    {
      const GraphBuilder::OriginScope scope(builder_, {"log_mel"});
      x = spectra(t_, audio, samples, frames, shape[1].value());
      length = t_.reshape(t_.size(frames - Dim(1)), {1});
    }
    std::vector<ValueId> inputs;
    for (const ValueId input : encoder_.inputs()) inputs.push_back(input == signal ? x : length);
    const auto outputs = ir::inline_graph(builder_, encoder_, inputs);
    Encoded found;
    for (const ValueId output : outputs) {
      const ir::TensorType& type = builder_.type(output);
      if (type.shape.size() == 3 && is_float(type.dtype) && !found.frames.valid())
        found.frames = output;
      else if (type.shape.size() == 1 && is_integer(type.dtype))
        found.length = t_.cast(t_.reshape(output, {}), DType::kInt64);
    }
    if (!found.frames.valid() || !found.length.valid())
      throw usage_error("the encoder has no outputs [batch, width, frames] and lengths [batch]");
    return found;
  }

  /// The logits [V] of the next token in a frame, and the states behind it.
  std::pair<ValueId, std::vector<ValueId>> predict(GraphBuilder& body, ValueId frame, ValueId last,
                                                   std::span<const ValueId> states) {
    Terms t(body);
    ValueId predicted;
    std::vector<ValueId> after;
    std::size_t used = 0;
    for (const Graph& network : networks_) {
      std::vector<ValueId> inputs;
      std::size_t own = 0;
      for (const ValueId input : network.inputs()) {
        const std::string& name = network.value(input).name;
        const auto& [dtype, shape] = network.type(input);
        ValueId given;
        if (name == kTargets)
          given = t.cast(last, dtype);
        else if (name == kTargetLength)
          given = t.reshape(body.scalar(dtype, 1), {1});
        else if (name == kFrame)
          given = t.cast(frame, dtype);
        else if (name == kPredicted && predicted.valid())
          given = t.cast(predicted, dtype);
        else if (is_state(network, input))
          given = states[used + own++];
        else
          throw usage_error("--decoder: what its input '{}' means is not known", name);
        if (elements(body.type(given).shape) != elements(shape))
          throw usage_error("--decoder: its input '{}' is {}, and it is given {}", name,
                            ir::to_string(network.type(input)), ir::to_string(body.type(given)));
        inputs.push_back(t.reshape(given, shape));
      }
      const auto outputs = ir::inline_graph(body, network, inputs);
      const auto& names = network.output_names();
      const auto at = std::ranges::find(names, kOutputs);
      if (at == names.end() || outputs.size() < own + 1)
        throw usage_error("--decoder: it has no '{}' and states behind them", kOutputs);
      predicted = outputs[static_cast<std::size_t>(at - names.begin())];
      after.insert(after.end(), outputs.end() - static_cast<std::ptrdiff_t>(own), outputs.end());
      used += own;
    }
    for (std::size_t i = 0; i < states_.size(); ++i)
      if (body.type(after[i]) != states_[i])
        throw usage_error("--decoder: a state is {}, and {} behind a token",
                          ir::to_string(states_[i]), ir::to_string(body.type(after[i])));
    const Dim count = body.type(predicted).shape.back();
    return {t.cast(t.reshape(predicted, {count}), DType::kFloat32), std::move(after)};
  }

  static Dim elements(const Shape& shape) {
    Dim count = 1;
    for (const Dim& dim : shape) count = count * dim;
    return count;
  }

  /// The first of the largest logits among those that `allowed` says; their number if there is
  /// none.
  static ValueId likeliest(Terms t, ValueId logits, ValueId allowed, const Dim& count) {
    const ValueId none = t.real(-std::numeric_limits<double>::infinity());
    const ValueId most = t.reduce("ReduceMax", t.op("Where", {allowed, logits, none}), 0, true);
    const ValueId hit = t.op("And", {allowed, t.op("Equal", {logits, most})});
    return t.reduce("ReduceMin", t.op("Where", {hit, t.iota(count), t.size(count)}), 0, false);
  }

  Graph loop_body(const Encoded& encoded, ValueId blank_type, const Dim& most) {
    GraphBuilder body("token");
    Terms t(body);
    for (const auto& [symbol, range] : builder_.ranges()) body.range(symbol, range);
    const ir::TensorType number{DType::kInt64, {}}, list{DType::kInt64, {most + Dim(1)}};
    body.input("iteration", number);
    body.input("goes_on", {DType::kBool, {}});
    const ValueId at = body.input("frame", number), here = body.input("in_frame", number),
                  count = body.input("count", number), last = body.input("last", number);
    std::vector<ValueId> states;
    for (const ir::TensorType& type : states_) states.push_back(body.input({}, type));
    const ValueId tokens = body.input("tokens", list), frames = body.input("frames", list);
    const ValueId all = body.input("encoded", builder_.type(encoded.frames)),
                  length = body.input("length", number),
                  blank = body.input("blank", builder_.type(blank_type));
    const Dim width = body.type(all).shape[1];
    const ValueId frame =
        t.reshape(body.add("Gather", {all, at}, {{"axis", std::int64_t{2}}}), {1, width, 1});
    auto [logits, after] = predict(body, frame, last, states);
    const Dim choices = body.type(logits).shape[0];
    choices_ = choices.value();
    const ValueId is_text = t.op("LessOrEqual", {t.iota(choices), blank});
    const ValueId token = likeliest(t, logits, is_text, choices);
    const ValueId zero = t.integer(0), one = t.integer(1);
    // Without durations it is 0. NaN chooses nothing: the loop goes on to the next frame.
    const ValueId step = t.op(
        "Sub", {likeliest(t, logits, t.op("Not", {is_text}), choices), t.op("Add", {blank, one})});
    const ValueId is_token = t.op("Less", {token, blank});
    const ValueId new_count = t.op("Add", {count, t.op("Where", {is_token, one, zero})});
    const ValueId new_here = t.op("Add", {here, t.op("Where", {is_token, one, zero})});
    const ValueId moves =
        t.op("And", {t.op("Greater", {step, zero}), t.op("Less", {step, t.size(choices)})});
    const ValueId ends = t.op("Or", {t.op("Not", {is_token}),
                                     t.op("GreaterOrEqual", {new_here, t.integer(kMostOfFrame)})});
    const ValueId by = t.op("Where", {moves, step, t.op("Where", {ends, one, zero})});
    const ValueId next = t.op("Add", {at, by});
    body.output("goes_on", t.op("And", {t.op("Less", {next, length}),
                                        t.op("Less", {new_count, t.size(most)})}));
    body.output("frame", next);
    body.output("in_frame", t.op("Where", {t.op("Greater", {by, zero}), zero, new_here}));
    body.output("count", new_count);
    body.output("last", t.op("Where", {is_token, token, last}));
    for (std::size_t i = 0; i < states.size(); ++i)
      body.output("state", t.op("Where", {is_token, after[i], states[i]}));
    const ValueId place = t.reshape(t.op("Where", {is_token, count, t.size(most)}), {1});
    body.output("tokens", t.op("Scatter", {tokens, t.reshape(token, {1}), place}));
    body.output("frames", t.op("Scatter", {frames, t.reshape(at, {1}), place}));
    return body.finish();
  }

  const Graph& encoder_;
  std::span<const Graph> networks_;
  GraphBuilder builder_;
  Terms t_;
  std::vector<ir::TensorType> states_;
  std::int64_t choices_ = 0;  // tokens, blank, durations
};

}  // namespace

bool is_prediction_network(const Graph& inputs) {
  return input_of(inputs, kTargets) && input_of(inputs, kTargetLength);
}

bool has_joint_network(const Graph& inputs) { return input_of(inputs, kFrame).has_value(); }

std::string joiner_beside(const std::string& decoder) {
  const std::filesystem::path path(decoder);
  std::string name = path.filename().string();
  constexpr std::string_view kDecoder = "decoder";
  const std::size_t at = name.find(kDecoder);
  if (at == std::string::npos)
    throw usage_error("--decoder: '{}' has no joint network, and no name of one beside it",
                      decoder);
  name.replace(at, kDecoder.size(), "joiner");
  return (path.parent_path() / name).string();
}

std::pair<Shapes, Shapes> shapes_of_sound(const Graph& inputs) {
  const auto signal = input_of(inputs, kSignal), length = input_of(inputs, kLength);
  const bool fits =
      signal && length && inputs.inputs().size() == 2 &&
      inputs.type(*signal).dtype == DType::kFloat32 && inputs.type(*signal).shape.size() == 3 &&
      inputs.type(*signal).shape[1].is_constant() && inputs.type(*length).dtype == DType::kInt64 &&
      inputs.type(*length).shape.size() == 1;
  if (!fits)
    throw usage_error(
        "the encoder of a transducer takes '{}' f32 [batch, bands, frames] and '{}' i64 [batch], "
        "as NeMo and sherpa-onnx write them",
        kSignal, kLength);
  const std::int64_t bands = inputs.type(*signal).shape[1].value();
  return {{{kSignal, {1, bands, kLeastFrames}}, {kLength, {1}}},
          {{kSignal, {1, bands, kMostFrames}}, {kLength, {1}}}};
}

Shapes shapes_of_a_token(const Graph& inputs) {
  Shapes shapes;
  for (const ValueId input : inputs.inputs()) {
    std::vector<std::int64_t> shape;
    for (const Dim& dim : inputs.type(input).shape)
      shape.push_back(dim.is_constant() ? dim.value() : 1);
    shapes[inputs.value(input).name] = std::move(shape);
  }
  return shapes;
}

Graph with_transducer(const Graph& encoder, std::span<const Graph> networks) {
  return Transducer(encoder, networks).run();
}

}  // namespace sinter::tools
