(define (nil) none)

(define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
(fib 20)

(define (range from to) (if (< from to) (cons from (range (+ from 1) to)) (nil)))
(define (append a b) (if a (cons (car a) (append (cdr a) b)) b))
(define (reverse list) (if list (append (reverse (cdr list)) (cons (car list) (nil))) (nil)))
(define (map f list) (if list (cons (f (car list)) (map f (cdr list))) (nil)))
(define (filter f list)
  (if list
      (if (f (car list)) (cons (car list) (filter f (cdr list))) (filter f (cdr list)))
      (nil)))
(define (fold f start list) (if list (fold f (f start (car list)) (cdr list)) start))
(define (mix sum n) (mod (+ (* sum 31) n) 1000003))

(fold mix 1 (reverse (range 0 150)))

(define (not x) (if x (nil) 1))
(define (quicksort list)
  (if list
      (append
        (quicksort (filter (lambda (n) (< n (car list))) (cdr list)))
        (cons (car list) (quicksort (filter (lambda (n) (not (< n (car list)))) (cdr list)))))
      (nil)))
(define (scramble n) (mod (* (+ n 7) 7919) 10007))
(fold mix 2 (quicksort (map scramble (range 0 300))))

(define (insert tree n)
  (if tree
      (if (< n (car tree))
          (cons (car tree) (cons (insert (car (cdr tree)) n) (cdr (cdr tree))))
          (cons (car tree) (cons (car (cdr tree)) (insert (cdr (cdr tree)) n))))
      (cons n (cons (nil) (nil)))))
(define (flatten tree rest)
  (if tree
      (flatten (car (cdr tree)) (cons (car tree) (flatten (cdr (cdr tree)) rest)))
      rest))
(fold mix 3 (flatten (fold insert (nil) (map scramble (range 0 300))) (nil)))

(define (compose f g) (lambda (x) (f (g x))))
(define (power f n) (if (= n 0) (lambda (x) x) (compose f (power f (- n 1)))))
(define (repeat n f) (if (= n 0) 0 (mix (repeat (- n 1) f) (f n))))
(repeat 150 (lambda (n) ((power (lambda (x) (+ x 3)) 100) n)))

(define (safe queen distance queens)
  (if queens
      (if (= (car queens) queen) (nil)
        (if (= (car queens) (+ queen distance)) (nil)
          (if (= (car queens) (- queen distance)) (nil)
            (safe queen (+ distance 1) (cdr queens)))))
      1))
(define (queens left size placed)
  (if (= left 0) 1
    (fold
      (lambda (sum queen) (+ sum (if (safe queen 1 placed) (queens (- left 1) size (cons queen placed)) 0)))
      0
      (range 0 size))))
(queens 6 6 (nil))
