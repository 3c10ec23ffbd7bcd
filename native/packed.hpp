// Packed: an event as msgpack has it, read straight into the keys, without an object for anything in it.
//
// It reads what events are made of: a map from names to texts, numbers and booleans. Of whatever else it says that it
// cannot (texts beyond ASCII, whose encoding would have to be checked; a name that is there twice; nonsense): who reads
// everything decides about these.
//
// Most events have the same names at the same places, so a name is compared with the last one there before any table.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "keys.hpp"

namespace runnel {

class Packed {
   public:
    // Which attributes events are searched for.
    void forget() { *this = Packed(); }
    void know(std::string_view name, AttributeNo number) { numbers_.emplace(name, number); }

    // An event is read after keys.begin_event(); if it cannot be, the keys are in no state to be matched.
    bool read(const char* data, std::size_t size, Keys& keys) {
        at_ = reinterpret_cast<const std::uint8_t*>(data);
        end_ = at_ + size;
        std::size_t count;
        if (!map(count)) return false;
        for (std::size_t place = 0; place < count; ++place) {
            std::string_view name;
            if (!more(1) || !text(*at_++, name) || name.empty()) return false;
            const AttributeNo number = number_of(place, name);
            if (number == kUnknown ? !value([](auto) {}) : !take(number, keys)) return false;
        }
        return at_ == end_;
    }

   private:
    static constexpr AttributeNo kUnknown = 0xFFFFFFFF;
    struct Guess {
        std::string name;
        AttributeNo number = kUnknown;
    };

    bool more(std::size_t size) const { return static_cast<std::size_t>(end_ - at_) >= size; }

    // An unsigned integer of so many bytes, the highest first.
    bool digits(int size, std::uint64_t& out) {
        if (!more(static_cast<std::size_t>(size))) return false;
        out = 0;
        for (int i = 0; i < size; ++i) out = out << 8 | *at_++;
        return true;
    }

    bool map(std::size_t& count) {
        if (!more(1)) return false;
        const std::uint8_t tag = *at_++;
        std::uint64_t size = tag & 0x0F;
        if ((tag & 0xF0) != 0x80 && !(tag == 0xDE && digits(2, size)) && !(tag == 0xDF && digits(4, size))) return false;
        count = size;
        return true;
    }

    bool text(std::uint8_t tag, std::string_view& out) {
        std::uint64_t size = tag & 0x1F;
        if ((tag & 0xE0) != 0xA0 && !(tag >= 0xD9 && tag <= 0xDB && digits(1 << (tag - 0xD9), size))) return false;
        if (!more(size)) return false;
        out = {reinterpret_cast<const char*>(at_), size};
        at_ += size;
        return ascii(out);
    }

    static bool ascii(std::string_view text) {
        constexpr std::uint64_t kHigh = 0x8080808080808080ull;
        const char* p = text.data();
        std::size_t left = text.size();
        std::uint64_t word = 0;
        for (; left >= 8; p += 8, left -= 8) {
            std::memcpy(&word, p, 8);
            if (word & kHigh) return false;
        }
        word = 0;
        std::memcpy(&word, p, left);
        return !(word & kHigh);
    }

    bool take(AttributeNo number, Keys& keys) {
        if (keys.kind(number) != Kind::absent) return false;
        return value([&](auto found) {
            using Found = decltype(found);
            if constexpr (std::is_same_v<Found, std::string_view>) keys.set_text(number, found);
            else if constexpr (std::is_same_v<Found, bool>) keys.set_bool(number, found);
            else if (found == found) keys.set_number(number, Number::of(found));  // what is not a number is not there
        });
    }

    // The next value is handed on as bool, std::int64_t, double or std::string_view.
    template <class Set>
    bool value(Set&& set) {
        if (!more(1)) return false;
        const std::uint8_t tag = *at_++;
        std::uint64_t raw;
        if (tag < 0x80 || tag >= 0xE0) {
            set(static_cast<std::int64_t>(static_cast<std::int8_t>(tag)));
        } else if (tag == 0xC2 || tag == 0xC3) {
            set(tag == 0xC3);
        } else if (tag == 0xCA || tag == 0xCB) {
            if (!digits(tag == 0xCA ? 4 : 8, raw)) return false;
            set(tag == 0xCA ? static_cast<double>(as<float>(static_cast<std::uint32_t>(raw))) : as<double>(raw));
        } else if (tag >= 0xCC && tag <= 0xCF) {
            if (!digits(1 << (tag - 0xCC), raw) || raw >> 63) return false;
            set(static_cast<std::int64_t>(raw));
        } else if (tag >= 0xD0 && tag <= 0xD3) {
            const int size = 1 << (tag - 0xD0);
            if (!digits(size, raw)) return false;
            const int unused = 64 - 8 * size;
            set(static_cast<std::int64_t>(raw << unused) >> unused);
        } else {
            std::string_view found;
            if (!text(tag, found)) return false;
            set(found);
        }
        return true;
    }

    template <class To, class From>
    static To as(From from) {
        static_assert(sizeof(To) == sizeof(From));
        To to;
        std::memcpy(&to, &from, sizeof to);
        return to;
    }

    AttributeNo number_of(std::size_t place, std::string_view name) {
        if (place >= guesses_.size()) guesses_.resize(place + 1);
        Guess& guess = guesses_[place];
        if (guess.name != name) {
            guess.name = name;
            const auto found = numbers_.find(guess.name);
            guess.number = found == numbers_.end() ? kUnknown : found->second;
        }
        return guess.number;
    }

    const std::uint8_t *at_ = nullptr, *end_ = nullptr;
    std::unordered_map<std::string, AttributeNo> numbers_;
    std::vector<Guess> guesses_;  // by place in the event
};

}  // namespace runnel
