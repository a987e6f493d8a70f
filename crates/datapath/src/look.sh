answer "$(listing)" "$known"
