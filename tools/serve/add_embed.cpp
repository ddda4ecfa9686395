// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/add_embed.h"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/files/input_file.h"
#include "runtime/files/output_file.h"
#include "runtime/format_error.h"
#include "tools/cli/session_options.h"
#include "tools/cli/signature_option.h"
#include "tools/cli/verbs/plan_source.h"
#include "tools/cli/verbs/verbs.h"
#include "tools/compiler/run/npy.h"
#include "tools/serve/models/embedder.h"
#include "tools/serve/models/embedding_files.h"
#include "tools/tokenizer/tokenizer.h"

namespace sinter::tools {
namespace {

struct EmbedArguments {
  std::string model, tokenizer, file, outputs, pooling, prompt;
  std::vector<std::string> texts;
  bool raw = false;
  std::int64_t batch_rows = 32;
  ModelTexts build;
  SessionOptions session;
  LoadOptions load;
};

std::vector<std::string> texts_of(const EmbedArguments& options) {
  if (options.file.empty()) {
    if (options.texts.empty()) throw usage_error("there is no text: give TEXT.. or --file FILE");
    return options.texts;
  }
  if (!options.texts.empty()) throw usage_error("texts and --file exclude each other");
  std::vector<std::string> texts;
  std::ifstream file;
  if (options.file != "-") file = files::open_stream(options.file);
  std::istream& lines = options.file == "-" ? std::cin : file;
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    texts.push_back(std::move(line));
  }
  if (texts.empty()) throw usage_error("'{}' has no line", options.file);
  return texts;
}

void write_vectors(const std::string& path, const std::vector<std::vector<float>>& vectors) {
  std::vector<float> all;
  for (const auto& vector : vectors) all.insert(all.end(), vector.begin(), vector.end());
  const std::vector<std::int64_t> shape = {std::ssize(vectors), std::ssize(vectors.front())};
  write_npz(path, {{"embeddings", ir::Tensor::of(DType::kFloat32, shape, all)}});
}

void run_embed(EmbedArguments options, const Console& console) {
  const std::vector<std::string> texts = texts_of(options);
  files::check_output(options.outputs, {options.file, options.model});
  const OpenModel model =
      open_model(options.model, options.build, options.load, console, ModelUse::kVectors);
  if (!Embedder::takes(model.plan))
    throw usage_error(
        "'{}' makes no vectors of texts: it is to take input_ids, attention_mask and "
        "token_type_ids [texts, tokens] and give [texts, size] or [texts, tokens, size]",
        options.model);
  if (options.tokenizer.empty()) options.tokenizer = model.tokenizer;
  if (options.tokenizer.empty())
    throw usage_error("'{}' brings no tokenizer: give --tokenizer tokenizer.json", options.model);
  EmbeddingFiles files = EmbeddingFiles::in(model.folder, options.pooling);
  const std::string& prompt = with_context("--prompt", [&]() -> const std::string& {
    return files.prompt(options.prompt.empty() ? std::nullopt : std::optional(options.prompt));
  });
  Tokenizer tokenizer = Tokenizer::load(options.tokenizer);
  const auto masks = std::ranges::find(model.plan.inputs(), "attention_mask", &BindingInfo::name);
  TensorModelOptions how;
  how.batch_rows = options.batch_rows;
  how.pads = masks != model.plan.inputs().end();
  TensorModel tensors(model.plan, options.session, how);
  Embedder embedder(tensors, files.pooling.value_or(Pooling::kMean), std::move(files.dense));
  if (files.max_tokens)
    tokenizer.truncate(
        std::min<std::size_t>(*files.max_tokens, static_cast<std::size_t>(embedder.most_tokens())));
  std::vector<EncoderText> ids;
  std::size_t cut = 0, tokens = 0;
  const std::size_t skipped = files.skipped(tokenizer, prompt);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto encoded = with_context(fmt::format("text {}", i + 1),
                                      [&] { return tokenizer.encode_cut(prompt + texts[i]); });
    ids.push_back({{encoded.ids.begin(), encoded.ids.end()}, 0, skipped});
    cut += encoded.is_cut ? 1 : 0;
    tokens += encoded.ids.size();
  }
  if (cut > 0)
    console.note(fmt::format("{} of {} texts are cut at {} tokens", cut, texts.size(),
                             tokenizer.truncation()->tokens));
  const bool normalizes = !options.raw && files.normalizes.value_or(true);
  const auto vectors = embedder.embed(ids, normalizes);
  if (!options.outputs.empty()) {
    write_vectors(options.outputs, vectors);
  } else if (!console.json) {
    for (const auto& vector : vectors) {
      std::string line;
      for (const float x : vector) line += fmt::format("{}{}", line.empty() ? "" : " ", x);
      console.print(line);
    }
  }
  nlohmann::ordered_json json = {{"plan", options.model},
                                 {"texts", texts.size()},
                                 {"tokens", tokens},
                                 {"cut", cut},
                                 {"width", vectors.front().size()},
                                 {"normalized", normalizes}};
  if (options.outputs.empty()) json["embeddings"] = vectors;
  console.result(json);
}

}  // namespace

void add_embed(Cli& cli) {
  auto options = std::make_shared<EmbedArguments>();
  auto* verb = cli.app.add_subcommand(
      "embed", "Vectors of texts by an encoder: a line of numbers for each text");
  verb->add_option("model", options->model,
                   "Folder of a sentence encoder, plan, ONNX file, or name in the hub's cache "
                   "(org/name)")
      ->required();
  verb->add_option("text", options->texts, "Texts");
  verb->group("Texts");
  verb->add_option("--file FILE", options->file, "A text a line; - is standard input");
  verb->add_option("--tokenizer FILE", options->tokenizer, "tokenizer.json (default: the model's)");
  verb->group("Vectors");
  verb->add_option("--outputs FILE", options->outputs,
                   "Write them to this .npz file, as `embeddings`, and print none");
  verb->add_option("--pooling KIND", options->pooling,
                   "From vectors of tokens: their mean, or the first token's, .. (default: as "
                   "modules.json says, else mean)")
      ->check_one_of(pooling_options());
  verb->add_option("--prompt NAME", options->prompt,
                   "Prompt in front of each text, of config_sentence_transformers.json (default: "
                   "the one that it names, else none)");
  verb->add_flag("--raw", options->raw,
                 "As the model gives them: not of length 1 (default: as modules.json says, else of "
                 "length 1)");
  verb->add_option("--batch-rows N", options->batch_rows, "Most texts of a run")
      ->capture_default_str()
      ->check_range(1, 1 << 20);
  add_session_options(*verb, options->session);
  add_signature_option(*verb, options->load);
  verb->add_threads_option();
  add_model_options(*verb, options->build);
  verb->example("sinter embed encoder_folder \"The sky is blue.\" \"So is the sea.\"");
  verb->example("sinter embed encoder_folder --file lines.txt --outputs vectors.npz");
  verb->callback([options, &console = cli.console] { run_embed(*options, console); });
}

}  // namespace sinter::tools
