// The functions of decoding that Python calls, by ctypes. They return null, or what went wrong.
#include <exception>
#include <string>

#include "translation_search.h"

#define QUINTAIN_API extern "C" __attribute__((visibility("default")))

namespace quintain {
namespace translation {

template <class Work>
const char* report(Work work) {
  static thread_local std::string message;
  try {
    work();
    return nullptr;
  } catch (const std::exception& error) {
    message = error.what();
    return message.c_str();
  }
}

}  // namespace translation
}  // namespace quintain

QUINTAIN_API const char* quintain_translation_model(const quintain::translation::Sizes* sizes,
                                                    const float* epsilons, const float* source,
                                                    const float* target,
                                                    quintain::translation::Model** model) {
  return quintain::translation::report([&] {
    auto made = std::make_unique<quintain::translation::Model>();
    made->sizes = *sizes;
    made->encoder_epsilon = epsilons[0];
    made->decoder_epsilon = epsilons[1];
    made->source_table.assign(source, source + sizes->source_ids * sizes->width);
    made->target_table.assign(target, target + sizes->target_ids * sizes->width);
    *model = made.release();
  });
}

QUINTAIN_API const char* quintain_translation_add_matrix(quintain::translation::Model* model,
                                                         int32_t precision, int64_t inputs,
                                                         int64_t outputs, const void* kernel,
                                                         const float* scales, const float* bias) {
  return quintain::translation::report([&] {
    model->matrices.push_back(std::make_unique<quintain::translation::PackedMatrix>(
        static_cast<quintain::Precision>(precision), inputs, outputs, kernel, scales, bias));
  });
}

QUINTAIN_API const char* quintain_translation_add_norm(quintain::translation::Model* model,
                                                       const float* gamma, const float* beta) {
  return quintain::translation::report([&] {
    const int64_t width = model->sizes.width;
    model->norms.push_back({{gamma, gamma + width}, {beta, beta + width}});
  });
}

QUINTAIN_API void quintain_translation_free_model(quintain::translation::Model* model) {
  delete model;
}

QUINTAIN_API const char* quintain_translation_search(
    const quintain::translation::Model* model, const quintain::translation::Options* options,
    const int32_t* ends, quintain::translation::Search** search) {
  return quintain::translation::report(
      [&] { *search = new quintain::translation::Search(*model, *options, ends); });
}

QUINTAIN_API void quintain_translation_free_search(quintain::translation::Search* search) {
  delete search;
}

QUINTAIN_API const char* quintain_translation_add(quintain::translation::Search* search,
                                                  int64_t key, const int32_t* ids, int64_t count,
                                                  int64_t max_length, const int32_t* prefix,
                                                  int64_t prefix_count) {
  return quintain::translation::report(
      [&] { search->add(key, ids, count, max_length, prefix, prefix_count); });
}

QUINTAIN_API const char* quintain_translation_run(quintain::translation::Search* search,
                                                  int64_t num_steps) {
  return quintain::translation::report([&] { search->run(num_steps); });
}

// Takes a sentence that is done: its key, and `num_outputs` rows of at most `room` ids, each with
// a length and a score; a length of -1 where there is no output. Returns how many ids the longest
// has, and leaves the sentence where it is if that is more than `room`; -1 if no sentence is done.
QUINTAIN_API int64_t quintain_translation_take(quintain::translation::Search* search,
                                               int64_t num_outputs, int64_t room, int64_t* key,
                                               int32_t* ids, int64_t* lengths, float* scores) {
  if (search->done().empty()) return -1;
  const quintain::translation::Sentence& sentence = search->done().front();
  const auto& outputs = sentence.finished.empty() ? sentence.alive : sentence.finished;
  const int64_t count = std::min<int64_t>(num_outputs, outputs.size());
  int64_t longest = 0;
  for (int64_t i = 0; i < count; ++i) {
    longest = std::max<int64_t>(longest, outputs[i].ids.size());
  }
  if (longest > room) return longest;
  *key = sentence.key;
  for (int64_t i = 0; i < num_outputs; ++i) {
    lengths[i] = i < count ? static_cast<int64_t>(outputs[i].ids.size()) : -1;
    scores[i] = i < count ? outputs[i].score : 0.0f;
    if (i < count) std::copy(outputs[i].ids.begin(), outputs[i].ids.end(), ids + i * room);
  }
  search->done().pop_front();
  return longest;
}
