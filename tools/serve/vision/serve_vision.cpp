// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/vision/serve_vision.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <utility>

#include "ir/tensor.h"
#include "ir/text/shown.h"
#include "runtime/engine/executor.h"
#include "runtime/files/input_file.h"
#include "runtime/format_error.h"
#include "tools/json/read_json.h"
#include "tools/serve/vision/image_text.h"
#include "tools/vision/image_processor.h"

namespace sinter::tools {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// While it lives, one of those that wait or run.
class Turn {
 public:
  Turn(std::atomic<std::int64_t>& count, std::int64_t most) : count_(count) {
    if (++count_ <= most + 1) return;
    --count_;
    throw QueueFullError(
        ErrorCode::kUsage,
        fmt::format("{} requests with images wait already: try again later", most));
  }
  ~Turn() { --count_; }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  std::atomic<std::int64_t>& count_;
};

struct Architecture {
  const ImageTextRow* row = nullptr;
  TokenId token = 0;  // the placeholder
};

Architecture architecture_in(const std::string& folder) {
  const std::string path = (fs::path(folder) / "config.json").string();
  const json config = read_json(files::read_file(path, "", kMostConfigBytes),
                                fmt::format("'{}'", path), kConfigLimits);
  const auto type = config.is_object() ? config.find("model_type") : config.end();
  if (!config.is_object() || type == config.end() || !type->is_string())
    throw usage_error("'{}' has no 'model_type'", path);
  Architecture found;
  found.row = find_image_text(type->get_ref<const std::string&>());
  if (found.row == nullptr)
    throw usage_error("'{}' is of '{}': how it writes images into texts is known of {}", path,
                      ir::shown(type->get_ref<const std::string&>()), image_text_names());
  const auto token = config.find(found.row->token_key);
  if (token == config.end() || !token->is_number_unsigned() || *token > INT32_MAX)
    throw usage_error("'{}' has no '{}' that is a token", path, found.row->token_key);
  found.token = token->get<TokenId>();
  return found;
}

class Tower final : public VisionModel {
 public:
  Tower(const Plan& plan, const std::string& folder, const Tokenizer& tokenizer,
        const engine::ExecutorLimits& decoder, const SessionOptions& session, std::int64_t waiting)
      : tokenizer_(tokenizer),
        model_(architecture_in(folder)),
        processor_((fs::path(folder) / "preprocessor_config.json").string()),
        plan_(plan),
        session_(plan, with_host_outputs(session)),
        decoder_type_(decoder.given_type),
        width_(decoder.given_width),
        most_images_(plan.inputs()[0].shape[0].max),
        waiting_(waiting) {
    const std::string name = tokenizer.decode(std::vector<std::int64_t>{model_.token}, false);
    if (const auto id = tokenizer.id_of(name); !id || *id != model_.token)
      throw usage_error("token {}, which stands for images, has no name in the tokenizer",
                        model_.token);
    marker_ = name;
    const BindingInfo& output = plan.outputs().at(0);
    if (output.shape.size() < 2 || output.shape.back().max != width_)
      throw usage_error("the tower gives vectors of {} numbers, and the decoder takes {}",
                        output.shape.empty() ? 0 : output.shape.back().max, width_);
  }

  ImagePrompt read(const std::string& text, std::span<const std::string> images,
                   std::size_t most) override {
    ImagePrompt prompt;
    if (count_markers(text) != images.size())
      throw usage_error("the prompt has {} markers of images ('{}'), and there are {} images",
                        count_markers(text), ir::shown(marker_), images.size());
    auto vectors = std::make_shared<PromptVectors>();
    vectors->dtype = decoder_type_;
    vectors->width = width_;
    const std::string whole = images.empty() ? text : with_images(text, images, *vectors);
    const auto ids = tokenizer_.encode(whole, false, most);
    prompt.tokens = {ids.begin(), ids.end()};
    if (images.empty()) return prompt;
    std::int32_t count = 0;
    for (const TokenId id : prompt.tokens)
      vectors->rows.push_back(id == model_.token ? count++ : -1);
    const std::size_t row = static_cast<std::size_t>(width_) * size_of(decoder_type_);
    if (vectors->data.size() != static_cast<std::size_t>(count) * row)
      throw usage_error("{} tokens stand for images, which have {} vectors", count,
                        vectors->data.size() / row);
    prompt.vectors = std::move(vectors);
    return prompt;
  }

 private:
  static SessionOptions with_host_outputs(SessionOptions options) {
    options.output_memory = Memory::kHost;
    return options;
  }

  std::size_t count_markers(const std::string& text) const {
    std::size_t count = 0;
    for (std::size_t at = text.find(marker_); at != std::string::npos;
         at = text.find(marker_, at + marker_.size()))
      ++count;
    return count;
  }

  /// Each marker in `text` replaced; the vectors of all images behind each other.
  std::string with_images(const std::string& text, std::span<const std::string> images,
                          PromptVectors& vectors) {
    const Turn turn(turns_, waiting_);
    std::string whole;
    std::size_t from = 0;
    for (std::size_t i = 0; i < images.size(); ++i) {
      const std::string name = fmt::format("image {}", i + 1);
      const ImagePieces pieces =
          processor_.pieces(decode_image(std::as_bytes(std::span(images[i])), name));
      const std::size_t at = text.find(marker_, from);
      whole += text.substr(from, at - from);
      from = at + marker_.size();
      std::string piece;
      for (std::int64_t left = run(pieces, vectors); left > 0; --left) piece += marker_;
      whole += model_.row->text(pieces.rows, pieces.columns, piece);
    }
    return whole + text.substr(from);
  }

  /// Appends the vectors of all pieces; returns how many one has.
  std::int64_t run(const ImagePieces& pieces, PromptVectors& vectors) {
    const std::size_t bytes = pieces.pixels.size() / static_cast<std::size_t>(pieces.count);
    const std::scoped_lock lock(mutex_);
    std::int64_t each = 0;
    for (std::int64_t first = 0; first < pieces.count; first += most_images_) {
      const std::int64_t count = std::min(most_images_, pieces.count - first);
      const std::vector<std::int64_t> shape = {count, processor_.height(), processor_.width(), 3};
      session_.set_input(
          "pixels", TensorView{DType::kUInt8, shape,
                               pieces.pixels.data() + static_cast<std::size_t>(first) * bytes});
      session_.run();
      const TensorView output = session_.output(std::size_t{0});
      std::int64_t rows = 1;
      for (std::size_t d = 0; d + 1 < output.shape.size(); ++d) rows *= output.shape[d];
      each = rows / count;
      append(output, vectors);
    }
    return each;
  }

  void append(const TensorView& output, PromptVectors& vectors) const {
    const auto* data = static_cast<const std::byte*>(output.data);
    const std::size_t count = output.byte_count() / size_of(output.dtype);
    if (output.dtype == decoder_type_) {
      vectors.data.insert(vectors.data.end(), data, data + output.byte_count());
      return;
    }
    const std::size_t size = size_of(decoder_type_), before = vectors.data.size();
    vectors.data.resize(before + count * size);
    for (std::size_t i = 0; i < count; ++i)
      ir::store_double(decoder_type_, vectors.data.data() + before + i * size,
                       ir::load_as_double(output.dtype, data + i * size_of(output.dtype)));
  }

  const Tokenizer& tokenizer_;
  const Architecture model_;
  const ImageProcessor processor_;
  const Plan plan_;
  Session session_;
  const DType decoder_type_;
  const std::int64_t width_, most_images_, waiting_;
  std::string marker_;
  std::atomic<std::int64_t> turns_ = 0;
  std::mutex mutex_;  // of the session
};

}  // namespace

std::unique_ptr<VisionModel> make_vision_model(const Plan& tower, const std::string& folder,
                                               const Tokenizer& tokenizer,
                                               const engine::ExecutorLimits& decoder,
                                               const SessionOptions& session,
                                               std::int64_t waiting) {
  if (decoder.given_width == 0)
    throw usage_error(
        "the decoder takes no vectors in place of tokens: compile it with --embeddings");
  return std::make_unique<Tower>(tower, folder, tokenizer, decoder, session, waiting);
}

}  // namespace sinter::tools
